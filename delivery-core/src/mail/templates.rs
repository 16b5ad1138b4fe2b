//! The templates of e-mails: a subject, a plain text and an HTML body for each kind and language.

mod built_in;
mod preview;
mod values;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use minijinja::{Environment, UndefinedBehavior, Value, context};
use thiserror::Error;

pub(crate) use self::built_in::named;
pub(super) use self::values::{MOST_KEYS, ServiceValues, Shown};
use crate::email::Email;
use crate::language::Language;
use crate::ledger::MessageKind;

const PARTS: [&str; 3] = ["subject", "txt", "html"];
/// The language of a template whose name contains no language.
const ENGLISH: &str = "en";

/// The templates of e-mails, written for [minijinja](https://docs.rs/minijinja). `Default` has the built-in templates,
/// in English and German.
///
/// A template is named `KIND.PART`, such as `purchase.html`, or `KIND.LANGUAGE.PART`, such as `purchase.de.html`. A
/// name without a language stands for English. Case has no meaning in these names, except in fragments. `KIND` is the
/// [name](MessageKind::template) of a kind: `purchase`, `resend`, `successor`, `expiring` or `revoked`. `PART` is
/// `subject`, `txt` or `html`. Names that begin with `_` are fragments for `include`, `import` and `extends`; the
/// built-in ones are `_layout.html`, `_parts.html`, `_key.txt`, `_words.txt` and `_words.de.txt`.
///
/// Every template has these variables:
///
/// * `email`: the recipient's address
/// * `language`: the tag of the language in which the e-mail is rendered
/// * `base_url`: the base URL of the service, without a slash at its end
/// * `page`, `fetch` and `lost`: the URLs of the buyer's page, of the endpoint for products and of the page for lost
///   keys, as in [`MailLinks`](super::MailLinks). Each may be `none`
/// * `shop.name` and `shop.support` (an e-mail address): each is `none` if it is not known
/// * `shop.colour` and `shop.ink`: the colours of a button and of the text on it
/// * `shop.is_plain`: true if the shop has set no colours
/// * `subject`: the rendered subject, only in the bodies
/// * `keys`: a list of at most 200 items. Only an e-mail of the kind `resend` can have more than one item
/// * `omits`: whether the buyer has more keys than `keys` contains
///
/// The fields of the first item of `keys` are also variables of their own. Each item has:
///
/// * `key`: the key's text
/// * `key_id`: the key's id, which is not secret
/// * `order.id`, `order.source` and `order.host_ref`: the order's number, the platform that the order comes from, and
///   your own name for the key. Each may be none
/// * `command`: whether to show the command that fetches the product. It is shown for products of type `api`. It is
///   shown for all products with [`mail_curl`](crate::delivery::Builder::mail_curl), or if `page` is `none`
/// * `product.id`, `product.name`, `product.description`, `product.type`, and `product.host_ref`, your own name for the
///   product, which may be none
/// * `expires_at` (RFC 3339), and `ends` with `year`, `month`, `day` and `time`, in UTC; `ends` is none if the key
///   never expires
/// * `subscribed`: whether a subscription renews the key. The key is then valid as long as the subscription runs, and
///   `ends` is only the end of the time paid for, including the days of grace
/// * `status`: `valid`, `expired`, `exhausted` or `revoked`
/// * `max_uses` and `remaining_uses` (-1: unlimited), `used_count`
///
/// An undefined name is an error, not an empty string. Every value is escaped in templates and fragments whose names
/// end with `.html`. A macro escapes values in the same way as the template that calls the macro. Values are never
/// interpreted as template code.
///
/// A template should put the key into a link only after `#`, as in `page ~ "#" ~ key`. Mail scanners open links, and
/// URLs appear in logs, but browsers do not send a server the part after the `#`. Mail providers that count clicks
/// replace a link by a URL of their own, which would contain the key. They do not replace a link if
/// `clicktracking="off"`, `data-disable-tracking="true"` and `ses:no-track` precede its `href`.
#[derive(Debug, Clone)]
pub struct Templates {
    environment: Arc<Environment<'static>>,
    /// The names of the templates without the `PART` at their ends, such as `purchase` and `purchase.de`.
    stems: BTreeSet<String>,
}

/// The error for a template that cannot be used.
#[derive(Debug, Error)]
#[error("the template {template} of {of} {problem}")]
pub struct TemplateError {
    template: String,
    of: &'static str,
    problem: &'static str,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The parts of a rendered e-mail.
pub(super) struct Rendered {
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) html: String,
    pub(super) language: Language,
}

impl Templates {
    /// Returns the built-in templates with `templates` added. A template with the name of a built-in template replaces
    /// it. Each template is rendered with example values to find errors.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] if a name does not have the form that the [type](Self) describes, a template has a syntax
    /// error or uses an undefined name, a subject is empty, or a kind in a language lacks one of its three parts.
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
        let ours = built_in::all().map(|(name, source)| (Cow::Borrowed(name), Cow::Borrowed(source)));
        let theirs = templates.into_iter().map(|(name, source)| (Cow::Owned(name.into()), Cow::Owned(source.into())));
        let mut stems = BTreeSet::new();
        let mut names = BTreeSet::new();
        for (mut name, source) in ours.chain(theirs) {
            if !name.starts_with('_') {
                name = Cow::Owned(name.to_ascii_lowercase());
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
                if templates.render_all((stem, ENGLISH), &example)?.subject.is_empty() {
                    return Err(TemplateError::new(&format!("{stem}.subject"), "is empty"));
                }
            }
        }
        Ok(templates)
    }

    /// Returns the built-in templates with the files of a folder added. A file with the name of a built-in template
    /// replaces it. Files whose names begin with a dot are ignored.
    ///
    /// # Errors
    ///
    /// As for [`replacing`](Self::replacing), and if the folder or a file in it cannot be read, or a file is not UTF-8
    /// text.
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

    /// Returns whether there are templates of at least one kind in this language or in a more general one, such as `de`
    /// for `de-AT`.
    #[must_use]
    pub fn speak(&self, language: &Language) -> bool {
        language.lookup().any(|tag| named().any(|kind| self.stems.contains(&stem(kind, tag))))
    }

    /// Renders an e-mail about `keys`, which must not be empty. The language of the e-mail is the first of these for
    /// which there are templates: the language of the first key's product, then `language`, then English.
    pub(super) fn render(
        &self,
        kind: MessageKind,
        (keys, to): (&[Shown<'_>], &Email),
        (service, language): (ServiceValues<'_>, &Language),
    ) -> Result<Rendered, TemplateError> {
        let wanted = keys.first().and_then(|shown| shown.product.language());
        let mut tags = wanted.into_iter().chain([language]).flat_map(Language::lookup);
        let tag = tags.find(|tag| self.stems.contains(&stem(kind, tag))).unwrap_or(ENGLISH);
        self.render_all((&stem(kind, tag), tag), &values::values(keys, to.as_str(), service, tag))
    }

    fn render_all(&self, (stem, tag): (&str, &str), values: &Value) -> Result<Rendered, TemplateError> {
        let render = |part, values: &Value| {
            let name = format!("{stem}.{part}");
            let rendered = self.environment.get_template(&name).and_then(|template| template.render(values));
            rendered.map_err(|error| TemplateError::unusable(&name, error))
        };
        // Join the lines of the subject, because a host application's template may contain line breaks.
        let subject = render("subject", values)?.split_whitespace().collect::<Vec<_>>().join(" ");
        let values = context! { subject => subject.as_str(), ..values.clone() };
        // minijinja escapes slashes. A slash needs no escaping, and some mail programs and filters do not recognise a
        // link with escaped slashes. This replacement changes no value: if a value contains the text `&#x2f;`,
        // minijinja has escaped that text to `&amp;#x2f;`.
        let html = render("html", &values)?.replace("&#x2f;", "/");
        Ok(Rendered { text: render("txt", &values)?, html, subject, language: tag.parse().unwrap_or_default() })
    }
}

impl Default for Templates {
    fn default() -> Self {
        // Compiled and checked once, because a program may build many services.
        static BUILT_IN: LazyLock<Templates> = LazyLock::new(|| {
            let none: [(&str, &str); 0] = [];
            // This cannot fail, because the tests of this module render the built-in templates. If it failed
            // nevertheless, each attempt to send an e-mail would fail and be logged, and the e-mails would be retried.
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

/// Returns the common beginning of the names of the templates for a kind and a language, such as `purchase.de`.
fn stem(kind: MessageKind, language: &str) -> String {
    if language == ENGLISH { kind.template().to_owned() } else { format!("{}.{language}", kind.template()) }
}

/// Returns a template's name without the `PART` at its end. Returns `None` if no template can have this name.
fn stem_of(name: &str) -> Option<&str> {
    let (stem, _) = name.rsplit_once('.').filter(|(_, part)| PARTS.contains(part))?;
    let (kind, language) = stem.split_once('.').unwrap_or((stem, ENGLISH));
    let is_kind = named().any(|known| known.as_str() == kind);
    // The name of an English template contains no language: `purchase.html`, not `purchase.en.html`.
    let is_language = language.parse::<Language>().is_ok() && (language != ENGLISH || !stem.contains('.'));
    (is_kind && is_language).then_some(stem)
}

#[cfg(test)]
mod tests;
