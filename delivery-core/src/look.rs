//! What the pages look like: the shop's name and colour, templates, one stylesheet and the small script of the buyer's page.
//!
//! Everything here turns values into text and does nothing else; [`http`](crate::http) decides what is shown, to whom.

mod bounds;
mod colour;
mod markdown;
mod ours;
mod plot;
mod shelf;

use std::borrow::Cow;
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
use crate::mail::TemplateError;
use crate::text::{Invalid, line};

/// The script of the buyer's page: it takes the key from the address, clears the address bar, and copies on request.
const SCRIPT: &str = include_str!("look/key.js");
const STYLE: &str = include_str!("look/style.css");

/// What the pages look like. `Default` is a shop called "Digital Delivery" in blue.
#[derive(Clone)]
pub struct Look {
    name: String,
    colour: Colour,
    support: Option<Email>,
    environment: Arc<Environment<'static>>,
    desk: bool,
    buyer: bool,
    sign_in: Option<String>,
}

impl Look {
    /// The shop's name: 1 to 100 characters without control characters.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for any other.
    pub fn name(self, name: impl Into<String>) -> Result<Self, Invalid> {
        let name = name.into();
        if line(&name, 1, 100) && !name.trim().is_empty() {
            Ok(Self { name, ..self })
        } else {
            Err(Invalid::expected("must be 1 to 100 characters without control characters"))
        }
    }

    /// The colour of buttons and links. Where it would be too light or too dark to read, a shade of it is used.
    #[must_use]
    pub fn colour(self, colour: Colour) -> Self {
        Self { colour, ..self }
    }

    /// Whom buyers can write to.
    #[must_use]
    pub fn support(self, email: Email) -> Self {
        Self { support: Some(email), ..self }
    }

    /// Whether there is a desk for sellers, beside the page for buyers; there is, unless this says otherwise.
    #[must_use]
    pub fn desk(self, desk: bool) -> Self {
        Self { desk, ..self }
    }

    /// Whether there is a page for buyers, at `/key`; there is, unless this says otherwise. E-mails have a button to it.
    #[must_use]
    pub fn buyer(self, buyer: bool) -> Self {
        Self { buyer, ..self }
    }

    /// Where the host signs its sellers in: a path or an address that whoever is not signed in is led to. It is used where the host
    /// says who the seller is, by [`Builder::seller`](crate::delivery::Builder::seller).
    #[must_use]
    pub fn sign_in_at(self, address: impl Into<String>) -> Self {
        Self { sign_in: Some(address.into()), ..self }
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

    pub(crate) fn support_address(&self) -> Option<&str> {
        self.support.as_ref().map(Email::as_str)
    }

    /// The same with the files of a folder that end with `.html`, as [`replacing`](Self::replacing). Other files are left alone.
    ///
    /// # Errors
    ///
    /// As [`replacing`](Self::replacing), and if the folder or a file in it cannot be read as text in UTF-8.
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

    /// The same with `templates`, in [minijinja](https://docs.rs/minijinja)'s language, added or in the places of ours of the same
    /// name. Ours are in the folder `src/look/templates` of this crate; `_layout.html` is around all of them. A template is parsed
    /// here; one that uses a name which its page does not have is answered 500.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] if a name does not end with `.html`, or a template has a syntax error.
    pub fn replacing<N: Into<String>, S: Into<String>>(
        self,
        templates: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Self, TemplateError> {
        let mut environment = self.environment.as_ref().clone();
        for (name, source) in templates {
            let name: String = name.into();
            // What has another name would not be escaped.
            if Path::new(&name).extension().is_none_or(|extension| extension != "html") {
                return Err(TemplateError::of_pages(&name, "has a name that does not end with .html", None));
            }
            let added = environment.add_template_owned(Cow::Owned(name.clone()), Cow::Owned(source.into()));
            added.map_err(|error| TemplateError::of_pages(&name, "is unusable", Some(Box::new(error))))?;
        }
        Ok(Self { environment: Arc::new(environment), ..self })
    }

    /// A page. `base` is the path at which the pages are mounted, without a slash at its end.
    pub(crate) fn render(&self, template: &str, base: &str, values: Value) -> Result<String, minijinja::Error> {
        let shop = context! { name => self.name.clone(), support => self.support.as_ref().map(Email::as_str) };
        let style = format!("{base}{}", self.style_path());
        let script = script_source();
        self.environment.get_template(template)?.render(context! { shop, base, style, script, ..values })
    }

    /// The stylesheet in the shop's colour.
    pub(crate) fn style(&self) -> Bytes {
        Bytes::from(format!("{}{STYLE}", self.colour.as_css()))
    }

    /// Where the stylesheet is, with a value that changes with it, so that it can be cached for ever.
    fn style_path(&self) -> String {
        let digest = Sha256::digest(self.style());
        let version: String = data_encoding::HEXLOWER.encode(&digest).chars().take(12).collect();
        format!("/key/style.css?v={version}")
    }
}

/// The script as it stands in the page.
fn script_source() -> Value {
    Value::from_safe_string(SCRIPT.to_owned())
}

/// What the content security policy calls the script: no other runs.
pub(crate) fn script_hash() -> String {
    format!("'sha256-{}'", data_encoding::BASE64.encode(&Sha256::digest(SCRIPT)))
}

impl Default for Look {
    fn default() -> Self {
        // Compiled once: a program may have many services.
        static BUILT_IN: LazyLock<Arc<Environment<'static>>> = LazyLock::new(|| {
            let mut environment = Environment::new();
            environment.set_undefined_behavior(UndefinedBehavior::Strict);
            for (name, source) in ours::ALL {
                // A test renders each: none has an error.
                let _ = environment.add_template(name, source);
            }
            Arc::new(environment)
        });
        let name = "Digital Delivery".to_owned();
        Self {
            name,
            colour: Colour::default(),
            support: None,
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
