//! Reading a form: `application/x-www-form-urlencoded`.

use std::collections::HashMap;

use percent_encoding::percent_decode;

use super::Unreadable;

/// The most fields of a form.
const FIELDS: usize = 1000;

/// Reads names and values: UTF-8, at most [`FIELDS`], no name twice.
pub(super) fn fields(form: &[u8]) -> Result<HashMap<String, String>, Unreadable> {
    let mut fields = HashMap::new();
    for field in form.split(|byte| *byte == b'&').filter(|field| !field.is_empty()) {
        let mut halves = field.splitn(2, |byte| *byte == b'=');
        let [name, value] = [halves.next(), halves.next()].map(|half| decoded(half.unwrap_or_default()));
        if fields.len() == FIELDS || fields.insert(name?, value?).is_some() {
            return Err(Unreadable);
        }
    }
    Ok(fields)
}

/// The values of a name, in their order; an error for one that is not UTF-8.
pub(super) fn values(form: &str, name: &str) -> impl Iterator<Item = Result<String, Unreadable>> {
    let fields = form.split('&').map(|field| field.split_once('=').unwrap_or((field, "")));
    let named = fields.filter(move |(field, _)| decoded(field.as_bytes()).as_deref() == Ok(name));
    named.map(|(_, value)| decoded(value.as_bytes()))
}

fn decoded(text: &[u8]) -> Result<String, Unreadable> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode(&spaced).decode_utf8().map(Into::into).map_err(|_| Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_utf8_and_there_once() {
        let read = fields(b"a=1&b%5Bc%5D=x+%2B%20y&empty&&d=").unwrap();
        assert_eq!([&read["a"], &read["b[c]"], &read["empty"], &read["d"]], ["1", "x + y", "", ""]);
        assert!(fields(b"a=1&%61=2").is_err());
        assert!(fields(b"a=%ff").is_err());
        assert!(fields("a=1&".repeat(2).as_bytes()).is_err());
        let many = (0..=FIELDS).map(|number| number.to_string()).collect::<Vec<_>>().join("=&");
        assert!(fields(many.as_bytes()).is_err());
    }
}
