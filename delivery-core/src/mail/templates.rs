//! What e-mails look like: a subject, a plain text and HTML for each kind and language.
//!
//! A template is called `KIND.PART`, or `KIND.LANGUAGE.PART` for a language other than English. `KIND` is one of
//! `purchase`, `resend`, `successor`, `expiring` and `revoked`; `PART` is `subject`, `txt` or `html`. A name that begins with an
//! underscore is a piece that templates include, import or extend.

mod ours;
mod values;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use minijinja::{Environment, UndefinedBehavior, Value, context};
use thiserror::Error;

pub(super) use self::values::{Place, Shown};
use crate::email::Email;
use crate::language::Language;
use crate::ledger::MessageKind;

/// The kinds of e-mails.
const KINDS: [MessageKind; 5] =
    [MessageKind::Purchase, MessageKind::Resend, MessageKind::Successor, MessageKind::Expiring, MessageKind::Revoked];
const PARTS: [&str; 3] = ["subject", "txt", "html"];
/// The language of templates without one in their name.
const ENGLISH: &str = "en";

/// The templates of e-mails, in [minijinja](https://docs.rs/minijinja)'s language. `Default` has ours, in English and German.
///
/// A template is named `KIND.PART`, such as `purchase.html`, or `KIND.LANGUAGE.PART`, such as `purchase.de.html`; without a language
/// it is English. `KIND` is `purchase`, `resend`, `successor`, `expiring` or `revoked`; `PART` is `subject`, `txt` or `html`. Names that begin
/// with `_` are pieces for `include`, `import` and `extends`; ours are `_layout.html`, `_parts.html`, `_key.txt`, `_words.txt` and
/// `_words.de.txt`.
///
/// Templates may use `keys`, a list of which only `resend` ever has more than one. Each has `key` (the key's text), `product.id`,
/// `product.name`, `product.description`, `expires_at` (RFC 3339), `ends` (`year`, `month`, `day` and `time`, in UTC; none if the
/// key never expires), `subscribed` (whether a subscription renews the key: then it is valid as long as that runs, and `ends` is only
/// until when it is paid, with the days of grace), `status` (`valid`, `expired` or `exhausted`), `max_uses` and `remaining_uses` (-1:
/// unlimited) and `used_count`. What the first key has can be used without `keys[0]` too. There are also `email`, `language`,
/// `base_url` (no slash at its end), `page` (the address of the buyer's page; none if there is none) and, in the bodies, `subject`.
/// An undefined name is an error, not an empty string. Every value is escaped in templates and pieces whose names end with `.html`; a
/// macro escapes as the template that calls it. Values are never interpreted as template code.
///
/// A template should put the key into a link only after `#`, as `page ~ "#" ~ key`: mail scanners open links, and URLs end up in logs,
/// but what follows `#` is sent to no server. Mail providers that count clicks put an address of their own in the place of a link,
/// and that would hold the key: they leave a link alone that has `clicktracking="off"`, `data-disable-tracking="true"` and
/// `ses:no-track` before its `href`.
#[derive(Debug, Clone)]
pub struct Templates {
    environment: Arc<Environment<'static>>,
    /// What precedes the part in the names: `purchase`, `purchase.de`.
    stems: BTreeSet<String>,
}

/// A template cannot be used.
#[derive(Debug, Error)]
#[error("the template {template} of {of} {problem}")]
pub struct TemplateError {
    template: String,
    of: &'static str,
    problem: &'static str,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What an e-mail looks like.
pub(super) struct Rendered {
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) html: String,
}

impl Templates {
    /// Ours, with `templates` added or in the places of those of the same name. Each is rendered with example values.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] if a name is none that a template can have, a template has a syntax error or uses an undefined name, a
    /// subject is empty, or a kind in a language lacks one of its three parts.
    ///
    /// ```
    /// use delivery_core::mail::Templates;
    ///
    /// let ours = Templates::replacing([("purchase.subject", "Thanks for {{ product.name }}")])?;
    /// assert!(Templates::replacing([("purchase.subjct", "Thanks")]).is_err());
    /// assert!(Templates::replacing([("purchase.subject", "Thanks for {{ prodct.name }}")]).is_err());
    /// # Ok::<(), delivery_core::mail::TemplateError>(())
    /// ```
    pub fn replacing<N: Into<String>, S: Into<String>>(
        templates: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let ours = ours::ALL.iter().map(|(name, source)| (Cow::Borrowed(*name), Cow::Borrowed(*source)));
        let theirs = templates.into_iter().map(|(name, source)| (Cow::Owned(name.into()), Cow::Owned(source.into())));
        let mut stems = BTreeSet::new();
        let mut names = BTreeSet::new();
        for (name, source) in ours.chain(theirs) {
            if !name.starts_with('_') {
                let stem =
                    stem_of(&name).ok_or_else(|| TemplateError::new(&name, "has a name that no template has"))?;
                stems.insert(stem.to_owned());
            }
            names.insert(name.clone().into_owned());
            let added = environment.add_template_owned(name.clone(), source);
            added.map_err(|error| TemplateError::unusable(&name, error))?;
        }
        let all = stems.iter().flat_map(|stem| PARTS.map(|part| format!("{stem}.{part}")));
        if let Some(missing) = all.into_iter().find(|name| !names.contains(name)) {
            return Err(TemplateError::new(&missing, "is missing"));
        }
        let templates = Self { environment: Arc::new(environment), stems };
        for stem in &templates.stems {
            for example in values::examples() {
                if templates.render_all(stem, &example)?.subject.is_empty() {
                    return Err(TemplateError::new(&format!("{stem}.subject"), "is empty"));
                }
            }
        }
        Ok(templates)
    }

    /// Ours, with the files of a folder added or in the places of those of the same name. Files whose names begin with a dot
    /// are left alone.
    ///
    /// # Errors
    ///
    /// As [`replacing`](Self::replacing), and if the folder or a file in it cannot be read as text in UTF-8.
    pub fn from_folder(folder: impl AsRef<Path>) -> Result<Self, TemplateError> {
        let unread = |name: &Path, error| TemplateError {
            template: name.display().to_string(),
            of: "e-mails",
            problem: "cannot be read",
            source: Some(Box::new(error)),
        };
        let folder = folder.as_ref();
        let mut templates = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| unread(folder, error))? {
            let entry = entry.map_err(|error| unread(folder, error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                let source = std::fs::read_to_string(entry.path()).map_err(|error| unread(&entry.path(), error))?;
                templates.push((name, source));
            }
        }
        Self::replacing(templates)
    }

    /// Whether there are templates in this language, of any kind.
    #[must_use]
    pub fn speak(&self, language: &Language) -> bool {
        language.lookup().any(|tag| KINDS.iter().any(|kind| self.stems.contains(&stem(*kind, tag))))
    }

    /// The e-mail of this kind about `keys`, of which there is one at least. It is in the language of the first product, else
    /// in `language`, else in English.
    pub(super) fn render(
        &self,
        kind: MessageKind,
        (keys, to): (&[Shown<'_>], &Email),
        (place, language): (Place<'_>, &Language),
    ) -> Result<Rendered, TemplateError> {
        let wanted = keys.first().and_then(|shown| shown.product.language());
        let tags = wanted.into_iter().chain([language]).flat_map(Language::lookup);
        let mut tags = tags.filter(|tag| self.stems.contains(&stem(kind, tag)));
        let tag = tags.next().unwrap_or(ENGLISH);
        self.render_all(&stem(kind, tag), &values::values(keys, to.as_str(), place, tag))
    }

    fn render_all(&self, stem: &str, values: &Value) -> Result<Rendered, TemplateError> {
        let render = |part, values: &Value| {
            let name = format!("{stem}.{part}");
            let rendered = self.environment.get_template(&name).and_then(|template| template.render(values));
            rendered.map_err(|error| TemplateError::unusable(&name, error))
        };
        // Join the lines of the subject, whatever a host's template contains: a subject is one line.
        let subject = render("subject", values)?.split_whitespace().collect::<Vec<_>>().join(" ");
        let values = context! { subject => subject.as_str(), ..values.clone() };
        // The engine escapes slashes. A slash needs no escape, and some mail programs and filters do not know a link with
        // escaped ones. What a value holds is not changed: an `&` of its own is `&amp;` here.
        let html = render("html", &values)?.replace("&#x2f;", "/");
        Ok(Rendered { text: render("txt", &values)?, html, subject })
    }
}

impl Default for Templates {
    fn default() -> Self {
        // Compiled and tried once: a program may have many services.
        static BUILT_IN: LazyLock<Templates> = LazyLock::new(|| {
            let none: [(&str, &str); 0] = [];
            // The tests below render the built-in templates. Without templates sending fails, the failure is logged, and the
            // e-mails are retried.
            Templates::replacing(none)
                .unwrap_or_else(|_| Templates { environment: Arc::new(Environment::new()), stems: BTreeSet::new() })
        });
        BUILT_IN.clone()
    }
}

impl TemplateError {
    fn new(template: &str, problem: &'static str) -> Self {
        Self { template: template.to_owned(), of: "e-mails", problem, source: None }
    }

    #[cfg(feature = "pages")]
    pub(crate) fn of_pages(
        template: &str,
        problem: &'static str,
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { template: template.to_owned(), of: "pages", problem, source }
    }

    fn unusable(template: &str, error: minijinja::Error) -> Self {
        Self { source: Some(Box::new(error)), ..Self::new(template, "is unusable") }
    }
}

/// What the names of templates of a kind in a language begin with.
fn stem(kind: MessageKind, language: &str) -> String {
    if language == ENGLISH { kind.template().to_owned() } else { format!("{}.{language}", kind.template()) }
}

/// What the name of a template has before its part; `None` if it is not the name of one.
fn stem_of(name: &str) -> Option<&str> {
    let (stem, _) = name.rsplit_once('.').filter(|(_, part)| PARTS.contains(part))?;
    let (kind, language) = stem.split_once('.').unwrap_or((stem, ENGLISH));
    let is_kind = KINDS.iter().any(|known| known.as_str() == kind);
    // In lower case, as languages are compared, and English has no other name.
    let is_language = language.parse::<Language>().is_ok_and(|read| read.as_str() == language)
        && (language != ENGLISH || !stem.contains('.'));
    (is_kind && is_language).then_some(stem)
}

#[cfg(test)]
mod tests;
