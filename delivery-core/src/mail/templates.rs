//! The templates of the e-mail, and the values they may use.

use chrono::{DateTime, Utc};
use minijinja::{Environment, UndefinedBehavior, context};
use thiserror::Error;

use crate::key::{Key, KeyText};
use crate::product::Product;
use crate::terms::{NEVER, UseLimit};

const SUBJECT: &str = "subject";
const TEXT: &str = "purchase.txt";
const HTML: &str = "purchase.html";

/// The templates of the e-mail, in [minijinja](https://docs.rs/minijinja)'s language. `Default` uses the built-in
/// templates.
///
/// Templates may use `key` (the key's text), `product.id`, `product.name`, `product.description`, `validity` and `uses`
/// (a sentence each), `expires_at` (RFC 3339), `max_uses` (-1: unlimited), `email`, `base_url` (no slash at its end)
/// and, in the bodies, `subject`. An undefined name is an error, not an empty string. Every value is escaped in the
/// HTML body. Values are never interpreted as template code.
///
/// A template should not put the key into a link: mail scanners open links, and URLs end up in logs.
#[derive(Debug, Clone)]
pub struct Templates {
    environment: Environment<'static>,
}

/// A template cannot be used.
#[derive(Debug, Error)]
#[error("the {template} template of the e-mail is unusable")]
pub struct TemplateError {
    template: &'static str,
    #[source]
    source: minijinja::Error,
}

/// What an e-mail looks like.
pub(super) struct Rendered {
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) html: String,
}

impl Templates {
    /// Templates for the subject (one line), the plain-text and the HTML body; each is rendered once with example
    /// values.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] if a template has a syntax error or uses an undefined name.
    pub fn new(
        subject: impl Into<String>,
        text: impl Into<String>,
        html: impl Into<String>,
    ) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        for (template, source) in [(SUBJECT, subject.into()), (TEXT, text.into()), (HTML, html.into())] {
            environment.add_template_owned(template, source).map_err(|source| TemplateError { template, source })?;
        }
        let templates = Self { environment };
        templates.render_with(&context! {
            key => "dlv_example", email => "buyer@example.com", base_url => "https://shop.example",
            product => context! { id => 1, name => "Example", description => "" },
            validity => "Valid.", uses => "Once.", expires_at => "2027-11-21T10:00:00Z", max_uses => 1,
        })?;
        Ok(templates)
    }

    pub(super) fn render(
        &self,
        key: &Key,
        text: &KeyText,
        product: &Product,
        base_url: &str,
    ) -> Result<Rendered, TemplateError> {
        self.render_with(&context! {
            key => text.expose(),
            email => key.email().as_str(),
            base_url,
            product => context! {
                id => product.id().get(), name => product.name(), description => product.description()
            },
            validity => validity(key.expires_at()),
            uses => uses(key.limit()),
            expires_at => crate::clock::timestamp(key.expires_at()),
            max_uses => key.limit().as_count(),
        })
    }

    fn render_with(&self, facts: &minijinja::Value) -> Result<Rendered, TemplateError> {
        let render = |template, facts: &minijinja::Value| {
            let rendered = self.environment.get_template(template).and_then(|template| template.render(facts));
            rendered.map_err(|source| TemplateError { template, source })
        };
        // Join the lines of the subject, whatever a host's template contains: a subject is one line.
        let subject = render(SUBJECT, facts)?.split_whitespace().collect::<Vec<_>>().join(" ");
        let facts = context! { subject => subject.as_str(), ..facts.clone() };
        Ok(Rendered { text: render(TEXT, &facts)?, html: render(HTML, &facts)?, subject })
    }
}

impl Default for Templates {
    fn default() -> Self {
        let ours = (include_str!("templates/purchase.txt"), include_str!("templates/purchase.html"));
        Self::new("Your key for {{ product.name }}", ours.0, ours.1)
            // The tests below render the built-in templates. Without templates sending fails, the failure is logged,
            // and the e-mails are retried.
            .unwrap_or_else(|_| Self { environment: Environment::new() })
    }
}

fn validity(expires_at: DateTime<Utc>) -> String {
    if expires_at >= NEVER {
        "It never expires.".to_owned()
    } else {
        format!("It is valid until {} UTC.", expires_at.format("%-d %B %Y, %H:%M"))
    }
}

fn uses(limit: UseLimit) -> String {
    match limit {
        UseLimit::Unlimited => "You can use it as often as you like.".to_owned(),
        UseLimit::Uses(uses) if uses.get() == 1 => "You can use it once.".to_owned(),
        UseLimit::Uses(uses) => format!("You can use it {} times.", uses.get()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeyId, Keyring, NewKey, Prefix};
    use crate::product::{NewProduct, ProductId};
    use crate::terms::{Terms, Validity};

    fn message(name: &str, terms: Terms) -> Rendered {
        let keyring = Keyring::new(Prefix::default(), &["0123456789abcdef".parse().unwrap()]).unwrap();
        let product = Product::new(ProductId::new(7).unwrap(), NewProduct::new(name).unwrap());
        let id = (KeyId::from_bytes([0; 16]), keyring.newest());
        let email = "{{7*7}}@example.com".parse().unwrap();
        let key = Key::from(NewKey::on_terms(id, product.id(), email, terms, "2026-11-21T10:00:00Z".parse().unwrap()));
        let text = keyring.text(key.id(), keyring.newest());
        Templates::default().render(&key, &text, &product, "https://shop.example").unwrap()
    }

    #[test]
    fn a_message_says_what_was_bought_and_on_which_terms() {
        let message = message("Field Guide", Terms::default());
        assert_eq!(message.subject, "Your key for Field Guide");
        for body in [&message.text, &message.html] {
            for part in [
                "Field Guide",
                "dlv_",
                "It is valid until 21 November 2027, 10:00 UTC.",
                "as often as you like",
                "{{7*7}}@",
            ] {
                assert!(body.contains(part), "{part} in {body}");
            }
            assert!(!body.contains("?key=") && !body.contains("&key="), "no address with the key in it");
            assert!(!body.contains("href"), "nothing to click");
        }
    }

    #[test]
    fn values_are_neither_markup_nor_code() {
        let message = message("<script>alert('{{ key }}')</script>", Terms::default());
        assert!(message.html.contains("&lt;script&gt;alert(&#x27;{{ key }}"), "{}", message.html);
        assert!(!message.html.contains("<script>"));
        assert!(message.subject.contains("{{ key }}"));
    }

    #[test]
    fn terms_in_words() {
        let terms = |days, count| Terms {
            validity: Validity::from_days(days).unwrap(),
            limit: UseLimit::from_count(count).unwrap(),
        };
        for (terms, sentence) in [
            (terms(-1, -1), "It never expires. You can use it as often as you like."),
            (terms(1, 1), "It is valid until 22 November 2026, 10:00 UTC. You can use it once."),
            (terms(1, 3), "You can use it 3 times."),
        ] {
            assert!(message("x", terms).text.contains(sentence));
        }
    }

    #[test]
    fn faulty_templates_are_refused_at_once() {
        assert!(Templates::new("{{ product.name }}", "{{ key }}", "{{ key }} {{ validity }}").is_ok());
        assert!(Templates::new("{{ product.name", "", "").is_err());
        assert!(Templates::new("x", "{{ kye }}", "").is_err());
        assert!(Templates::new("x", "", "{% if %}").is_err());
    }
}
