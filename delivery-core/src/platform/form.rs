//! Reads forms: `application/x-www-form-urlencoded`.

use std::collections::HashMap;

use percent_encoding::percent_decode;

use super::Unreadable;

/// The maximum number of fields of a form. A form with more fields is refused.
const FIELDS: usize = 1000;

/// Reads the fields of a form. Returns the values of each name, in the order of the form. Fails if a name or value is
/// not UTF-8, or if there are more than [`FIELDS`] fields.
pub(super) fn fields(form: &[u8]) -> Result<HashMap<String, Vec<String>>, Unreadable> {
    let mut fields = HashMap::<String, Vec<String>>::new();
    for (count, field) in form.split(|byte| *byte == b'&').filter(|field| !field.is_empty()).enumerate() {
        if count == FIELDS {
            return Err(Unreadable);
        }
        let mut halves = field.splitn(2, |byte| *byte == b'=');
        let [name, value] = [halves.next(), halves.next()].map(|half| decoded(half.unwrap_or_default()));
        fields.entry(name?).or_default().push(value?);
    }
    Ok(fields)
}

/// Returns the values of the fields called `name`, in the order of the form. A value that is not UTF-8 is an error.
pub(super) fn values(form: &str, name: &str) -> impl Iterator<Item = Result<String, Unreadable>> {
    let fields = form.split('&').map(|field| field.split_once('=').unwrap_or((field, "")));
    let named = fields.filter(move |(field, _)| decoded(field.as_bytes()).as_deref() == Ok(name));
    named.map(|(_, value)| decoded(value.as_bytes()))
}

fn decoded(text: &[u8]) -> Result<String, Unreadable> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode(&spaced).decode_utf8().map(Into::into).map_err(|_| Unreadable)
}
