//! Rendering of pages, and the security headers that all of them have.

use ::http::HeaderValue;
use bytes::Bytes;
use minijinja::Value;

use super::session::base;
use super::shown::{CONTENT, SOURCE};
use super::{ApiError, Page, PageRequest};
use crate::delivery::Delivery;
use crate::http::{Call, Reply, names};
use crate::look::{Shown, forms_hash, script_hash};
use crate::product::Product;

/// Replaces the JSON body of an error with an HTML page that tells the reader what to do. Any other reply is returned
/// unchanged.
pub(in crate::http) fn error_page(delivery: &Delivery, call: &Call, page: Page, reply: Reply) -> Reply {
    let Some(look) = delivery.inner.look.as_deref().filter(|_| reply.is_json_error()) else { return reply };
    let (path, status, here) = (page.row().path, reply.status().as_u16(), base(delivery));
    let request = PageRequest { delivery, look, call, path, form: None };
    let (back, to) = match (request.is_desk(), status, look.sign_in_address()) {
        (true, 401, Some(address)) => (address.to_owned(), "sign-in"),
        (true, 401, None) => (String::new(), ""),
        (true, ..) => (format!("{here}/desk"), "overview"),
        (false, ..) => (format!("{here}/key"), "key"),
    };
    match look.render("error.html", (here, &request.language(None)), minijinja::context! { status, back, to }) {
        Ok(html) => reply.with_html(html).security_headers(""),
        Err(_) => reply,
    }
}

impl PageRequest<'_> {
    /// Returns the text of the key that a pasted text contains. If it contains no key, returns the pasted text without
    /// spaces around it.
    pub(super) fn key_in(&self, pasted: &str) -> String {
        self.delivery.inner.keyring.in_pasted(pasted)
    }

    /// Renders a page without a script.
    pub(super) fn page(&self, template: &str, values: Value) -> Result<Reply, ApiError> {
        self.page_with(template, values, "")
    }

    /// Renders a page with the script of the buyer's page. Pages of the desk use this script for their buttons that
    /// copy text.
    pub(super) fn page_with_script(&self, template: &str, values: Value) -> Result<Reply, ApiError> {
        self.page_about(None, template, values)
    }

    /// Renders a page with the script of the buyer's page, in the language of `product` if it is given.
    pub(super) fn page_about(
        &self,
        product: Option<&Product>,
        template: &str,
        values: Value,
    ) -> Result<Reply, ApiError> {
        let html = self.html(product, template, values)?;
        let policy = format!("; script-src {}", script_hash());
        Ok(Reply::text("text/html; charset=utf-8", html.into()).security_headers(&policy))
    }

    /// Renders a page with the script for forms, which shows previews and the progress of uploads.
    pub(super) fn page_with_forms(&self, template: &str, values: Value) -> Result<Reply, ApiError> {
        self.page_with(template, values, &format!("; script-src {}; connect-src 'self'", forms_hash()))
    }

    pub(super) fn page_with(&self, template: &str, values: Value, policy: &str) -> Result<Reply, ApiError> {
        let html = self.html(None, template, values)?;
        Ok(Reply::text("text/html; charset=utf-8", html.into()).security_headers(policy))
    }

    /// Renders a page that shows the content of a product, with the script of the buyer's page. The template has the
    /// placeholders [`CONTENT`] and [`SOURCE`]. They are replaced with the HTML and the source of the content, without
    /// copying either. `picture` returns the address of the picture with a given file name, or `None` if the page
    /// cannot show it.
    pub(super) fn page_of_product(
        &self,
        template: &str,
        product: &Product,
        values: Value,
        (shown, picture): (&Shown, impl Fn(&str) -> Option<String>),
    ) -> Result<Reply, ApiError> {
        let html = Bytes::from(self.html(Some(product), template, values)?);
        let place = |text: &str, mark: &str| text.split_once(mark).map(|(before, _)| before.len());
        let text = std::str::from_utf8(&html).unwrap_or_default();
        let (Some(content), Some(source)) = (place(text, CONTENT), place(text, SOURCE)) else {
            return Err(Reply::internal().because("the template shows no product").into());
        };
        let between = html.slice(content + CONTENT.len()..source);
        let end = html.slice(source + SOURCE.len()..);
        let rest = shown.html.filled(picture).into_iter().chain([between, shown.source.clone(), end]).collect();
        let reply = Reply::text("text/html; charset=utf-8", html.slice(..content)).followed_by(rest);
        Ok(reply.security_headers(&format!("; script-src {}", script_hash())).with_pictures())
    }

    /// Renders a page in the language of `product`, if it is given.
    pub(super) fn html(&self, product: Option<&Product>, template: &str, values: Value) -> Result<String, ApiError> {
        let rendered = self.look.render(template, (base(self.delivery), &self.language(product)), values);
        rendered.map_err(|error| Reply::internal().because(error).into())
    }

    /// Returns a redirect to `path`, which is relative to the base path of the pages.
    pub(super) fn go_to(&self, path: &str) -> Reply {
        Reply::see_other(&format!("{}{path}", base(self.delivery)))
    }
}

impl Reply {
    /// Extends the content security policy, so that the page can show pictures from `data:` URLs.
    pub(super) fn with_pictures(self) -> Self {
        let policy = self.headers().iter().find(|(name, _)| **name == names::CONTENT_SECURITY_POLICY);
        let policy = policy.and_then(|(_, value)| value.to_str().ok()).unwrap_or_default();
        let policy = policy.replace("img-src 'self'", "img-src 'self' data:");
        self.text_header(&names::CONTENT_SECURITY_POLICY, &policy)
    }

    /// Adds the security headers that every page has. `more` is appended to the content security policy.
    pub(super) fn security_headers(self, more: &str) -> Self {
        let policy = format!(
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'{more}"
        );
        self.text_header(&names::CONTENT_SECURITY_POLICY, &policy)
            .with_header(&names::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"))
            // Not `no-referrer`: with it, browsers send our own forms with `Origin: null`, and the origin check would
            // refuse them.
            .with_header(&names::REFERRER_POLICY, HeaderValue::from_static("same-origin"))
            .with_header(&names::CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
            .with_header(&names::FRAME_OPTIONS, HeaderValue::from_static("DENY"))
    }
}
