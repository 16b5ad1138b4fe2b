//! Rules of the host application.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use thiserror::Error;

use super::Key;
use crate::throttle::log_seldom;

/// A rule of the host application, which decides whether a key may be used.
///
/// A rule can refuse uses that this crate allows, such as uses at the weekend, or more than three uses in a trial. A
/// rule does not see the times of earlier uses. To limit the number of uses a day, use
/// [`Grant::limit`](crate::http::Grant::limit).
///
/// [`Builder::rule`](crate::delivery::Builder::rule) adds a rule to a service. Every part of the service that decides
/// about a use then checks the rule: `/api/validate`, `/api/product`, a [`Grant`](crate::http::Grant),
/// [`Delivery::count_use`](crate::Delivery::count_use), `Delivery::use_in`, the buyer's page and the desk. The rule is
/// not checked again in two cases: when a ticket is used, such as the one in a link to a file, and when a request whose
/// use was counted is repeated.
///
/// A use is checked and counted in one atomic step. Parts of the service that count no use check the rule as if the key
/// were used now. They therefore give the same answer as a counted use at that time.
///
/// ```
/// use chrono::{DateTime, Datelike, Utc, Weekday};
/// use delivery_core::key::{Denied, Key, Rule};
///
/// /// Keys can be used from Monday to Friday.
/// #[derive(Debug)]
/// struct Weekdays;
///
/// const WEEKEND: Denied = Denied::new("WEEKEND", "This product can be used from Monday to Friday.");
///
/// impl Rule for Weekdays {
///     fn judge(&self, _key: &Key, at: DateTime<Utc>) -> Result<(), Denied> {
///         match at.weekday() {
///             Weekday::Sat | Weekday::Sun => Err(WEEKEND),
///             _ => Ok(()),
///         }
///     }
/// }
/// ```
///
/// # To ensure correctness
///
/// * The answer depends on the arguments and on nothing else. A rule that reads a clock, for example, may allow a
///   validation but refuse the use that follows. The store may also decide a batch of operations again, and the rule
///   must then give the same answer. `delivery-testing` has a check for this.
/// * A rule does not block. It runs while the store decides a batch of operations, and the other operations of the
///   batch wait for it.
pub trait Rule: Debug + Send + Sync + 'static {
    /// Decides whether a use is allowed. `key` is the key as it is after this use: [`Key::used`] includes the use. `at`
    /// is the time of the use. The rules of this crate have already allowed the use.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the use is refused. Its code and sentence are sent to the client.
    fn judge(&self, key: &Key, at: DateTime<Utc>) -> Result<(), Denied>;
}

/// Why a [`Rule`] refuses a use. The API answers 403 with this code and this sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{code}: {sentence}")]
pub struct Denied {
    code: &'static str,
    sentence: Cow<'static, str>,
}

impl Denied {
    /// Creates a refusal with a code for programs and a sentence for people. Every client gets both. The code must
    /// differ from the [codes of the API](crate::ErrorCode), because clients distinguish refusals by their codes.
    ///
    /// # Panics
    ///
    /// If the code is not 1 to 64 characters of `A` to `Z` and `_`. In a constant, this is a compile-time error.
    #[must_use]
    pub const fn new(code: &'static str, sentence: &'static str) -> Self {
        let bytes = code.as_bytes();
        let mut index = 0;
        while let Some((letter, _)) = bytes.split_at(index).1.split_first() {
            assert!(letter.is_ascii_uppercase() || *letter == b'_', "a code has the letters A to Z and _");
            index += 1;
        }
        assert!(1 <= index && index <= 64, "a code has 1 to 64 characters");
        Self { code, sentence: Cow::Borrowed(sentence) }
    }

    /// Returns the same refusal with another sentence, such as one that names the time when the key can be used again.
    #[must_use]
    pub fn saying(self, sentence: impl Into<String>) -> Self {
        Self { sentence: Cow::Owned(sentence.into()), ..self }
    }

    /// Returns the code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the sentence for people.
    #[must_use]
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

/// The rules of the host application, in the order in which they are checked. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Rules(Option<Arc<[Arc<dyn Rule>]>>);

impl Rules {
    /// No rules.
    pub const NONE: Self = Self(None);

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Checks the rules one after another, up to the first that refuses the use. `key` is the key as it is after the
    /// use.
    ///
    /// # Errors
    ///
    /// The [`Denied`] of the first rule that refuses the use. A rule that panics refuses the use with the code
    /// `RULE_FAILED`.
    pub fn judge(&self, key: &Key, at: DateTime<Utc>) -> Result<(), Denied> {
        const FAILED: Denied = Denied::new("RULE_FAILED", "The key cannot be used at the moment.");
        let Some(rules) = &self.0 else { return Ok(()) };
        // A panic must not reach the store, because it would also affect the operations of other callers.
        rules.iter().try_for_each(|rule| {
            catch_unwind(AssertUnwindSafe(|| rule.judge(key, at))).unwrap_or_else(|_| {
                log_seldom!(error, ?rule, "a rule panicked, and refuses the use");
                Err(FAILED)
            })
        })
    }
}

impl FromIterator<Arc<dyn Rule>> for Rules {
    fn from_iter<T: IntoIterator<Item = Arc<dyn Rule>>>(rules: T) -> Self {
        let rules: Arc<[_]> = rules.into_iter().collect();
        Self((!rules.is_empty()).then_some(rules))
    }
}

/// Two lists of rules are equal if both are empty, or if they are clones of each other.
impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Rules {}

impl Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().flat_map(|rules| rules.iter())).finish()
    }
}
