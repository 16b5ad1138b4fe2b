//! Conditional requests and ranges: which bytes of a file a request gets, as defined in sections 13 and 14 of RFC 9110.

use std::ops::Range;

use ::http::HeaderMap;
use headers::{ETag, HeaderMapExt, IfMatch, IfNoneMatch, IfRange};

/// Which bytes of a file a request gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Portion {
    /// All bytes, with status 200.
    Whole,
    /// These bytes, with status 206.
    Part(Range<u64>),
    /// No bytes, because the client already has the file. The status is 304.
    NotModified,
    /// No bytes, because `If-Match` does not name this file. The status is 412.
    PreconditionFailed,
    /// No bytes, because the file does not have the requested ones. The status is 416.
    NotSatisfiable,
}

/// Returns which bytes of a file a request with these header fields gets. `tag` is the strong entity tag of the file,
/// and `size` is its size in bytes.
///
/// A malformed field is ignored, except `If-Range`: if it is malformed, the request gets the whole file. A request for
/// several ranges gets the whole file, which RFC 9110 permits.
pub(super) fn portion(headers: &HeaderMap, tag: &ETag, size: u64) -> Portion {
    if headers.typed_get::<IfMatch>().is_some_and(|condition| !condition.precondition_passes(tag)) {
        return Portion::PreconditionFailed;
    }
    if headers.typed_get::<IfNoneMatch>().is_some_and(|condition| !condition.precondition_passes(tag)) {
        return Portion::NotModified;
    }
    let range = headers.get(::http::header::RANGE).and_then(|value| one_range(value.to_str().ok()?, size));
    // An `If-Range` with a date never matches, because files have no `Last-Modified`. A malformed `If-Range` never
    // matches either.
    let is_same = !headers.contains_key(::http::header::IF_RANGE)
        || headers.typed_get::<IfRange>().is_some_and(|condition| !condition.is_modified(Some(tag), None));
    match range.filter(|_| is_same) {
        None => Portion::Whole,
        Some(None) => Portion::NotSatisfiable,
        Some(Some(range)) => Portion::Part(range),
    }
}

/// Reads one range of bytes, such as `bytes=0-9`, `bytes=10-` or `bytes=-5`. Returns `None` for any other text, and
/// `Some(None)` if the file has no such bytes. The crate `headers` is not used here, because it handles two cases
/// wrongly: it refuses `bytes=-5` for a file of fewer than 5 bytes, and it accepts `bytes=-`.
#[expect(clippy::option_option, reason = "`None` is no range, `Some(None)` a range that the file does not have")]
fn one_range(text: &str, size: u64) -> Option<Option<Range<u64>>> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.split_once('-').filter(|_| unit.eq_ignore_ascii_case("bytes"))?;
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number of more than 64 bits is beyond the end of any file.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (first, last) {
        ("", last) => size.saturating_sub(number(last)?)..size,
        (first, "") => number(first)?..size,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            first..last.saturating_add(1).min(size)
        }
    };
    Some((range.start < range.end).then_some(range))
}

#[cfg(test)]
mod tests {
    use ::http::HeaderName;

    use super::*;

    #[test]
    fn which_bytes_a_request_gets() {
        use Portion::{NotModified, NotSatisfiable, Part, PreconditionFailed, Whole};
        for (fields, expected) in [
            (vec![], Whole),
            (vec![("range", "bytes=0-9")], Part(0..10)),
            (vec![("range", "Bytes=0-9")], Part(0..10)),
            (vec![("range", "bytes=10-")], Part(10..100)),
            (vec![("range", "bytes=-10")], Part(90..100)),
            (vec![("range", "bytes=-1000")], Part(0..100)),
            (vec![("range", "bytes=90-1000")], Part(90..100)),
            (vec![("range", "bytes=99-99")], Part(99..100)),
            (vec![("range", "bytes=100-")], NotSatisfiable),
            (vec![("range", "bytes=18446744073709551615-")], NotSatisfiable),
            (vec![("range", "bytes=-0")], NotSatisfiable),
            (vec![("range", "bytes=5-4")], Whole),
            (vec![("range", "bytes=-")], Whole),
            (vec![("range", "bytes=abc")], Whole),
            (vec![("range", "bytes= 0-1")], Whole),
            (vec![("range", "bytes=0-99999999999999999999999")], Part(0..100)),
            (vec![("range", "bytes=99999999999999999999-")], NotSatisfiable),
            (vec![("range", "bytes=0-1,5-6")], Whole),
            (vec![("range", "bytes=0-1,200-")], Whole),
            (vec![("range", "lines=0-1")], Whole),
            (vec![("range", "bytes")], Whole),
            (vec![("range", "0-1")], Whole),
            (vec![("if-none-match", "\"tag\"")], NotModified),
            (vec![("if-none-match", "W/\"tag\"")], NotModified),
            (vec![("if-none-match", "*")], NotModified),
            (vec![("if-none-match", "\"other\", \"tag\"")], NotModified),
            (vec![("if-none-match", "\"other\"")], Whole),
            (vec![("if-match", "\"tag\"")], Whole),
            (vec![("if-match", "*")], Whole),
            (vec![("if-match", "\"other\"")], PreconditionFailed),
            (vec![("if-match", "\"other\""), ("if-none-match", "\"tag\"")], PreconditionFailed),
            (vec![("if-none-match", "\"tag\""), ("range", "bytes=0-9")], NotModified),
            (vec![("if-range", "\"tag\""), ("range", "bytes=0-9")], Part(0..10)),
            (vec![("if-range", "\"stale\""), ("range", "bytes=0-9")], Whole),
            (vec![("if-range", "W/\"tag\""), ("range", "bytes=0-9")], Whole),
            (vec![("if-range", "tag"), ("range", "bytes=0-9")], Whole),
            (vec![("if-range", ""), ("range", "bytes=0-9")], Whole),
            (vec![("if-range", "Wed, 25 Nov 2026 10:00:00 GMT"), ("range", "bytes=0-9")], Whole),
            (vec![("if-range", "\"tag\""), ("range", "bytes=200-")], NotSatisfiable),
        ] {
            let headers = fields.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            let tag: ETag = "\"tag\"".parse().unwrap();
            assert_eq!(portion(&headers.collect(), &tag, 100), expected, "{fields:?}");
        }
    }

    #[test]
    fn an_empty_file_has_no_ranges() {
        let headers = HeaderMap::from_iter([(::http::header::RANGE, "bytes=0-".parse().unwrap())]);
        assert_eq!(portion(&headers, &"\"tag\"".parse().unwrap(), 0), Portion::NotSatisfiable);
        assert_eq!(portion(&HeaderMap::new(), &"\"tag\"".parse().unwrap(), 0), Portion::Whole);
    }
}
