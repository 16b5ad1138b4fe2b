//! The look of the pages: the shop's name and colour, the templates, the stylesheet, and the scripts of the buyer's
//! page and of the seller's forms.
//!
//! This module only renders values as text. The module [`http`](crate::http) decides what is shown to whom.

mod bounds;
mod built_in;
mod colour;
mod headings;
mod markdown;
mod pictures;
mod plot;
mod shelf;
mod tamer;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use minijinja::{Environment, UndefinedBehavior, Value, context};
use sha2::{Digest, Sha256};

pub use self::colour::Colour;
use self::markdown::rendered;
pub(crate) use self::plot::plot;
pub(crate) use self::shelf::{Shelf, Shown};
use crate::email::Email;
use crate::language::Language;
use crate::mail::{Brand, TemplateError};
use crate::text::{Invalid, line};

/// The script of the buyer's page. It reads the key from the URL's fragment, removes the fragment from the address bar,
/// and copies text to the clipboard on request.
const SCRIPT: &str = include_str!("look/key.js");
/// The script of the forms in which the seller edits products and posts. It shows previews and the progress of uploads.
const FORMS: &str = include_str!("look/forms.js");
const STYLE: &str = include_str!("look/style.css");
/// The language of the texts in the template `_words.html`.
const ENGLISH: &str = "en";

/// What the pages look like. The default is a shop called "Digital Delivery" in blue.
#[derive(Clone)]
pub struct Look {
    name: String,
    colour: Colour,
    support: Option<Email>,
    logo: Option<String>,
    environment: Arc<Environment<'static>>,
    desk: bool,
    buyer: bool,
    sign_in: Option<String>,
}

impl Look {
    /// Sets the shop's name: 1 to 100 characters without control characters, not only spaces.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for any other name.
    pub fn name(self, name: impl Into<String>) -> Result<Self, Invalid> {
        let name = name.into();
        if line(&name, 1, 100) && !name.trim().is_empty() {
            Ok(Self { name, ..self })
        } else {
            Err(Invalid::expected("must be 1 to 100 characters without control characters"))
        }
    }

    /// Sets the colour of buttons and links. Where the colour is too light or too dark to read, the pages use another
    /// shade of it.
    #[must_use]
    pub fn colour(self, colour: Colour) -> Self {
        Self { colour, ..self }
    }

    /// Sets the address that buyers can write to for support.
    #[must_use]
    pub fn support(self, email: Email) -> Self {
        Self { support: Some(email), ..self }
    }

    /// Sets the path of the shop's logo, such as `/static/logo.svg`. The logo must be on the same host as the pages,
    /// because pages load nothing from other hosts. The pages show it beside the shop's name, 32 pixels high.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for anything but a path that starts with a single `/` and has 1 to 500 printable ASCII characters,
    /// without spaces and backslashes.
    pub fn logo(self, path: impl Into<String>) -> Result<Self, Invalid> {
        let path = path.into();
        let is_path = path.starts_with('/') && !path.starts_with("//") && path.len() <= 500;
        if is_path && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            Ok(Self { logo: Some(path), ..self })
        } else {
            Err(Invalid::expected("must be a path on the same host such as /static/logo.svg"))
        }
    }

    /// Enables or disables the seller's pages at `/desk`. They are enabled by default.
    #[must_use]
    pub fn desk(self, desk: bool) -> Self {
        Self { desk, ..self }
    }

    /// Enables or disables the buyer's page at `/key`. It is enabled by default. While the page is enabled, e-mails to
    /// buyers have a button that opens the page.
    #[must_use]
    pub fn buyer(self, buyer: bool) -> Self {
        Self { buyer, ..self }
    }

    /// Sets the path or URL of the host application's own sign-in page. If the host application
    /// [signs sellers in](crate::delivery::Builder::seller), the desk shows a link to this page to a seller who is not
    /// signed in.
    #[must_use]
    pub fn sign_in_at(self, address: impl Into<String>) -> Self {
        Self { sign_in: Some(address.into()), ..self }
    }

    /// Returns the shop's name, support address and colours, which e-mails show.
    pub(crate) fn brand(&self) -> Brand {
        let (colour, ink) = self.colour.on_light();
        let colours = Some([colour.to_string(), ink.to_string()]);
        Brand { name: Some(self.name.clone()), reply_to: self.support.clone(), colours }
    }

    pub(crate) fn has_desk(&self) -> bool {
        self.desk
    }

    pub(crate) fn has_buyer(&self) -> bool {
        self.buyer
    }

    pub(crate) fn sign_in_address(&self) -> Option<&str> {
        self.sign_in.as_deref()
    }

    /// Adds or replaces templates, like [`replacing`](Self::replacing), from the `.html` files in a folder. Other
    /// files are ignored.
    ///
    /// # Errors
    ///
    /// As for [`replacing`](Self::replacing), and if the folder cannot be read, or a `.html` file is not UTF-8 text.
    pub fn from_folder(self, folder: impl AsRef<Path>) -> Result<Self, TemplateError> {
        let folder = folder.as_ref();
        let unread = |name: &Path, error| {
            TemplateError::of_pages(&name.display().to_string(), "cannot be read", Some(Box::new(error)))
        };
        let mut templates = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| unread(folder, error))? {
            let path = entry.map_err(|error| unread(folder, error))?.path();
            if path.extension().is_some_and(|extension| extension == "html") {
                let source = std::fs::read_to_string(&path).map_err(|error| unread(&path, error))?;
                templates.push((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), source));
            }
        }
        self.replacing(templates)
    }

    /// Adds templates in the language of [minijinja](https://docs.rs/minijinja). A template with the name of a built-in
    /// template replaces the built-in template. The built-in templates are in the folder `src/look/templates` of this
    /// crate. All pages extend `_layout.html`.
    ///
    /// The texts of the pages for buyers are in `_words.html` (English) and `_words.de.html`. A template such as
    /// `_words.fr.html` adds a language. A page for buyers is shown in the first of these languages that has such a
    /// template:
    ///
    /// 1. the language of the product
    /// 2. the languages of the browser
    /// 3. the language of [e-mails](crate::delivery::Builder::language)
    /// 4. English
    ///
    /// This method parses the templates, but does not render the pages. So a template that uses an undefined variable
    /// is accepted, and its page answers 500.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] if a name does not end with `.html`, or if a template has a syntax error. The same error is
    /// returned if the name of a template with texts, such as `_words.fr.html`, does not contain a language tag in
    /// lower case, or if such a template lacks a macro that `_words.html` has.
    pub fn replacing<N: Into<String>, S: Into<String>>(
        self,
        templates: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Self, TemplateError> {
        let mut environment = self.environment.as_ref().clone();
        let said = exports(&environment, "_words.html");
        for (name, source) in templates {
            let name: String = name.into();
            // minijinja chooses the escaping by the ending of a template's name. For `.html`, it escapes values as
            // HTML.
            if Path::new(&name).extension().is_none_or(|extension| extension != "html") {
                return Err(TemplateError::of_pages(&name, "has a name that does not end with .html", None));
            }
            let added = environment.add_template_owned(Cow::Owned(name.clone()), Cow::Owned(source.into()));
            added.map_err(|error| TemplateError::of_pages(&name, "is unusable", Some(Box::new(error))))?;
            let language = name.strip_prefix("_words.").and_then(|rest| rest.strip_suffix(".html"));
            if language.is_some_and(|tag| tag.parse::<Language>().map_or(true, |known| known.as_str() != tag)) {
                return Err(TemplateError::of_pages(&name, "has a name without a language in lower case", None));
            }
            if name.starts_with("_words.") && !said.is_subset(&exports(&environment, &name)) {
                return Err(TemplateError::of_pages(&name, "lacks a macro of _words.html", None));
            }
        }
        Ok(Self { environment: Arc::new(environment), ..self })
    }

    /// Returns the first of the `wanted` languages that has a template with texts. If there is a template only for a
    /// more general language, such as `pt` instead of `pt-br`, returns the more general language. Returns English if
    /// there is no template for any of the languages.
    pub(crate) fn spoken(&self, wanted: impl IntoIterator<Item = Language>) -> Language {
        let is_spoken = |tag: &str| tag == ENGLISH || self.environment.get_template(&words(tag)).is_ok();
        let spoken = |language: Language| language.lookup().find(|tag| is_spoken(tag)).and_then(|tag| tag.parse().ok());
        wanted.into_iter().find_map(spoken).unwrap_or_default()
    }

    /// Renders a page. `base` is the path under which the pages are mounted, without a slash at its end. There must be
    /// a template with the texts of `language`.
    pub(crate) fn render(
        &self,
        template: &str,
        (base, language): (&str, &Language),
        values: Value,
    ) -> Result<String, minijinja::Error> {
        let shop = context! {
            name => self.name.clone(), support => self.support.as_ref().map(Email::as_str), logo => self.logo.clone(),
        };
        let style = format!("{base}/key/style.css?v={}", version(&self.style()));
        let icon = format!("{base}/key/icon.svg?v={}", version(&self.icon()));
        let script = Value::from_safe_string(SCRIPT.to_owned());
        let forms = Value::from_safe_string(FORMS.to_owned());
        self.environment.get_template(template)?.render(context! {
            shop, base, style, icon, script, forms,
            page_language => language.as_str(), words_file => words(language.as_str()), ..values
        })
    }

    /// Returns the stylesheet, which begins with the shop's colour.
    pub(crate) fn style(&self) -> Bytes {
        Bytes::from(format!("{}{STYLE}", self.colour.as_css()))
    }

    /// Returns the icon of the pages: the first letter of the shop's name on the shop's colour.
    pub(crate) fn icon(&self) -> Bytes {
        let letter = self.name.trim().chars().next().unwrap_or('D').to_uppercase().to_string();
        let (colour, ink) = self.colour.on_light();
        Bytes::from(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><rect width=\"32\" height=\"32\" rx=\"7\" \
            fill=\"{colour}\"/><text x=\"16\" y=\"23\" font-family=\"system-ui,sans-serif\" font-size=\"20\" font-weight=\"700\" \
            text-anchor=\"middle\" fill=\"{ink}\">{}</text></svg>",
            minijinja::HtmlEscape(&letter)
        ))
    }
}

/// Puts commas between groups of three digits in the whole part of a number, such as `1,234.50`. The number must not be
/// negative.
pub(crate) fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

/// Returns the names of the macros of a template. Returns no names if the template does not exist, or if rendering it
/// fails.
fn exports(environment: &Environment<'_>, template: &str) -> BTreeSet<String> {
    let Ok(template) = environment.get_template(template) else { return BTreeSet::new() };
    let rendered = template.render_captured(());
    rendered.map(|it| it.state().exports().into_iter().map(str::to_owned).collect()).unwrap_or_default()
}

/// Returns the name of the template with the texts in a language. The host application adds languages by adding such
/// templates.
fn words(language: &str) -> String {
    if language == ENGLISH { "_words.html".to_owned() } else { format!("_words.{language}.html") }
}

/// Returns the first 12 hexadecimal digits of the content's SHA-256. They are part of the content's URL. The URL
/// changes with the content, so a copy in a browser's cache is never out of date.
fn version(content: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(content)).chars().take(12).collect()
}

/// Returns the hash of the buyer's script for the content security policy, so that browsers run this script and no
/// other.
pub(crate) fn script_hash() -> String {
    hash(SCRIPT)
}

/// Returns the hash of the script for forms, as [`script_hash`] does for the buyer's script.
pub(crate) fn forms_hash() -> String {
    hash(FORMS)
}

fn hash(script: &str) -> String {
    format!("'sha256-{}'", data_encoding::BASE64.encode(&Sha256::digest(script)))
}

impl Default for Look {
    fn default() -> Self {
        // The built-in templates are parsed only once, because a program may build many services.
        static BUILT_IN: LazyLock<Arc<Environment<'static>>> = LazyLock::new(|| {
            let mut environment = Environment::new();
            environment.set_undefined_behavior(UndefinedBehavior::Strict);
            environment.add_filter("grouped", |number: Value| grouped(&number.to_string()));
            for (name, source) in built_in::ALL {
                // This cannot fail: the rows of `tests/http` render each of these templates.
                let _ = environment.add_template(name, source);
            }
            Arc::new(environment)
        });
        let name = "Digital Delivery".to_owned();
        Self {
            name,
            colour: Colour::default(),
            support: None,
            logo: None,
            environment: BUILT_IN.clone(),
            desk: true,
            buyer: true,
            sign_in: None,
        }
    }
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Look").field("name", &self.name).field("colour", &self.colour).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
