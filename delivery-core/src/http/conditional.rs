//! Conditional requests and ranges: which bytes of a file a request gets, as RFC 9110 says in sections 13 and 14.

use std::ops::{Bound, Range};

use ::http::HeaderMap;
use headers::{ETag, HeaderMapExt, IfMatch, IfNoneMatch, IfRange};

/// Which bytes of a file a request gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Portion {
    /// All bytes: 200.
    Whole,
    /// These bytes: 206.
    Part(Range<u64>),
    /// Nothing, because the client has the file already: 304.
    NotModified,
    /// Nothing, because the client asks for another file: 412.
    PreconditionFailed,
    /// Nothing, because the file has no such bytes: 416.
    NotSatisfiable,
}

/// Returns which bytes of a file a request with these header fields gets. The file has this strong entity tag and this
/// size in bytes.
///
/// A field that is malformed is ignored. A request for several ranges gets the whole file, as a server may answer.
pub(super) fn portion(headers: &HeaderMap, tag: &ETag, size: u64) -> Portion {
    if headers.typed_get::<IfMatch>().is_some_and(|condition| !condition.precondition_passes(tag)) {
        return Portion::PreconditionFailed;
    }
    if headers.typed_get::<IfNoneMatch>().is_some_and(|condition| !condition.precondition_passes(tag)) {
        return Portion::NotModified;
    }
    let Some(range) = headers.typed_get::<headers::Range>() else { return Portion::Whole };
    // Files have no `Last-Modified`, so a condition with a date is never true.
    if headers.typed_get::<IfRange>().is_some_and(|condition| condition.is_modified(Some(tag), None)) {
        return Portion::Whole;
    }
    let text = headers.get(::http::header::RANGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if text.contains(',') {
        return Portion::Whole;
    }
    let mut satisfiable = range.satisfiable_ranges(size);
    match satisfiable.next().and_then(|bounds| bytes(bounds, size)) {
        Some(range) => Portion::Part(range),
        None if size > 0 && is_suffix(text) => Portion::Part(0..size),
        None => Portion::NotSatisfiable,
    }
}

/// Returns whether a range asks for a number of last bytes. If the file has fewer, the client gets all of them (RFC 9110,
/// section 14.1.2). The crate `headers` takes such a range for one that cannot be satisfied.
fn is_suffix(range: &str) -> bool {
    let digits = range.trim().strip_prefix("bytes=-").unwrap_or_default();
    digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.bytes().any(|byte| byte != b'0')
}

/// Converts the bounds of a range. Returns `None` if there are no such bytes.
fn bytes((start, end): (Bound<u64>, Bound<u64>), size: u64) -> Option<Range<u64>> {
    let start = match start {
        Bound::Included(start) => start,
        Bound::Excluded(before) => before.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let end = match end {
        Bound::Included(last) => last.saturating_add(1).min(size),
        Bound::Excluded(end) => end.min(size),
        Bound::Unbounded => size,
    };
    (start < end).then_some(start..end)
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
            (vec![("range", "bytes=10-")], Part(10..100)),
            (vec![("range", "bytes=-10")], Part(90..100)),
            (vec![("range", "bytes=-1000")], Part(0..100)),
            (vec![("range", "bytes=90-1000")], Part(90..100)),
            (vec![("range", "bytes=99-99")], Part(99..100)),
            (vec![("range", "bytes=100-")], NotSatisfiable),
            (vec![("range", "bytes=18446744073709551615-")], NotSatisfiable),
            (vec![("range", "bytes=-0")], NotSatisfiable),
            (vec![("range", "bytes=5-4")], NotSatisfiable),
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
