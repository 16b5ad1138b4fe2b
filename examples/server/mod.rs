//! What the example servers share: settings, secrets, and putting the service together. Only the framework differs.

pub mod assemble;
pub mod log;
pub mod secrets;
pub mod settings;
pub mod signal;
pub mod welcome;

use std::error::Error;

/// A refusal to start, with a sentence for the operator.
pub type Refusal = Box<dyn Error + Send + Sync>;

/// Prints an error with its causes, each once.
pub fn explain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Some libraries repeat their cause in their own words.
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
