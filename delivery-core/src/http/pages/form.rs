//! Forms that a browser submits.

use std::collections::BTreeMap;

use ::http::header;
use minijinja::{Value, context};

use super::{ApiError, PageRequest};
use crate::error::ErrorCode;
use crate::http::Call;
use crate::http::body::Body;
use crate::http::fields::whole;
use crate::text::Invalid;

/// The maximum number of fields of a form. The largest form has 55 fields. It is the sign-in form that the desk shows
/// if a form is submitted after the session has ended. It repeats the fields of the submitted form, such as a field for
/// each of the 50 keys in a list.
const FIELDS: usize = 64;

/// The fields of a form, as a browser submits them or as a page shows them. If several fields have the same name,
/// [`text`](Self::text) returns the value of the last one.
#[derive(Debug, Clone)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    pub(super) fn read(call: &Call, body: &Body) -> Result<Self, ErrorCode> {
        let bytes = whole(body).map_err(|fault| fault.code())?;
        let kind = call.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(ErrorCode::UnsupportedMediaType);
        }
        // Browsers send every line break as CR LF. Convert it to LF.
        let fields = url::form_urlencoded::parse(bytes).take(FIELDS + 1);
        let fields: Vec<_> = fields.map(|(name, value)| (name.into_owned(), value.replace("\r\n", "\n"))).collect();
        if fields.len() > FIELDS { Err(ErrorCode::InvalidParams) } else { Ok(Self(fields)) }
    }

    pub(super) fn of<const N: usize>(fields: [(&str, String); N]) -> Self {
        Self(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// Adds a field. Its value takes precedence over earlier fields with the same name.
    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    /// Returns the template values of these fields. A field that is absent is "".
    pub(super) fn values(&self, names: &[&'static str]) -> Value {
        Value::from(names.iter().map(|name| (*name, self.text(name).to_owned())).collect::<BTreeMap<_, _>>())
    }

    /// Returns the name and the value of each field.
    pub(super) fn fields(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.iter()
    }

    /// Returns the values of all fields with this name.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a field. Returns "" if the field is absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().rev().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }

    /// Returns the number in a field. Returns `None` if the field is empty or absent. If the field contains something
    /// else, the error message begins with `called`.
    pub(super) fn number(&self, field: &'static str, called: &str) -> Result<Option<i64>, FormError> {
        let wrong = |_| FormError::new(field, format!("{called} must be a number."));
        self.given(field).map(|text| text.parse().map_err(wrong)).transpose()
    }

    /// Returns the value of a field without spaces around it. Returns `None` if nothing is left, or if the field is
    /// absent.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|text| !text.is_empty())
    }
}

/// An error in a form: a message, and the name of the field that the message is about. If the message is about the
/// whole form, the name is empty.
#[derive(Debug)]
pub(super) struct FormError {
    field: &'static str,
    sentence: String,
}

impl FormError {
    pub(super) fn is_about(&self, field: &str) -> bool {
        self.field == field
    }

    pub(super) fn new(field: &'static str, sentence: impl Into<String>) -> Self {
        Self { field, sentence: sentence.into() }
    }

    /// Returns a function that converts the error of an invalid value into a message about `field`. The message begins
    /// with `called`.
    pub(super) fn of(field: &'static str, called: &'static str) -> impl Fn(Invalid) -> Self {
        move |expected| Self::new(field, format!("{called} {expected}."))
    }
}

/// Why a submitted form was refused or failed. For `Said`, the seller sees the form again, with this message. For
/// `ApiError`, the seller sees an error page.
pub(super) enum Undone {
    Said(FormError),
    ApiError(ApiError),
}

impl From<FormError> for Undone {
    fn from(fault: FormError) -> Self {
        Self::Said(fault)
    }
}

impl<E: Into<ApiError>> From<E> for Undone {
    fn from(error: E) -> Self {
        Self::ApiError(error.into())
    }
}

/// Returns a message authentication code (MAC) of the values that a form shows when it is opened. The browser sends the
/// MAC back with the form. If the stored values have a different MAC at that time, somebody else has changed the
/// record. [`is_digest`] checks this.
pub(super) fn digest(request: &PageRequest<'_>, shown: &[&str]) -> String {
    digests(request, shown).into_iter().next().unwrap_or_default()
}

/// Returns whether `text` is a [`digest`] of these values, made with any of the signing secrets.
pub(super) fn is_digest(request: &PageRequest<'_>, shown: &[&str], text: &str) -> bool {
    digests(request, shown).iter().any(|digest| digest == text)
}

fn digests(request: &PageRequest<'_>, shown: &[&str]) -> Vec<String> {
    // Prefix each text with its length, so that two different lists never produce the same bytes.
    let bytes: Vec<u8> = shown.iter().flat_map(|text| format!("{} {text}", text.len()).into_bytes()).collect();
    request.macs("desk form shown", &bytes).map(|mac| data_encoding::BASE64URL_NOPAD.encode(&mac)).collect()
}

/// Adds the error of a form to the template values of the page. Returns the values unchanged if there is no error.
pub(super) fn said(fault: Option<&FormError>, values: Value) -> Value {
    match fault {
        Some(FormError { field, sentence }) => context! { fault => sentence, faulty => *field, ..values },
        None => values,
    }
}

#[cfg(test)]
mod tests {
    use ::http::Method;

    use super::*;

    #[test]
    fn forms_are_read() {
        let kind = "application/x-www-form-urlencoded; charset=utf-8".parse().unwrap();
        let call = Call::new(Method::POST).header(header::CONTENT_TYPE, kind);
        let body = Body::Complete("a=1+2&b=%C3%A9%0D%0Ax&a=3&c=%20&d".into());
        let form = Form::read(&call, &body).unwrap();
        for (name, text, given) in
            [("a", "3", Some("3")), ("b", "é\nx", Some("é\nx")), ("c", " ", None), ("d", "", None), ("e", "", None)]
        {
            assert_eq!((form.text(name), form.given(name)), (text, given), "{name}");
        }
        let most = Body::Complete("a=1&".repeat(FIELDS).into());
        assert!(Form::read(&call, &most).is_ok());
    }
}
