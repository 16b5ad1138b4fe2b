//! Conversion of files into values for the templates.

use std::collections::HashMap;

use minijinja::{Value, context};

use super::shown::time;
use super::{PageRequest, base};
use crate::delivery::FileLink;
use crate::http::api::file::SHOWN;
use crate::product::File;

/// Returns the template values of the files of a product, for the seller's pages.
pub(super) fn listed(files: &[File]) -> Vec<Value> {
    let file = |file: &File| {
        let query: String =
            url::form_urlencoded::Serializer::new(String::new()).append_pair("name", file.name.as_str()).finish();
        context! { name => file.name.as_str(), size => size(file.size), added_at => time(file.added_at), query }
    };
    files.iter().map(file).collect()
}

/// Returns the template values of the files that a buyer may download. Also returns a map from the
/// [folded](crate::product::FileName::folded) name of each file to the address at which the page can show the file as a
/// picture. The addresses have no host, because the pages and the API are on the same host.
pub(super) fn downloads(request: &PageRequest<'_>, links: &[FileLink]) -> (Vec<Value>, HashMap<String, String>) {
    let url = &request.delivery.inner.outbox.base_url;
    let (mut files, mut addresses) = (Vec::new(), HashMap::new());
    for link in links {
        let path = link.url.strip_prefix(url.as_str()).unwrap_or(&link.url);
        let href = format!("{}{path}", base(request.delivery));
        addresses.insert(link.file.name.folded(), format!("{href}{SHOWN}"));
        files.push(context! { name => link.file.name.as_str(), size => size(link.file.size), href });
    }
    (files, addresses)
}

/// Formats a size for people, such as `1.4 MB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["bytes", "kB", "MB", "GB"];
    let mut unit = 0;
    let mut tenths = bytes.saturating_mul(10);
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        tenths = tenths.div_ceil(1000);
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    match (unit, bytes) {
        (0, 1) => "1 byte".to_owned(),
        (0, _) => format!("{bytes} {name}"),
        _ if tenths < 100 => format!("{}.{} {name}", tenths / 10, tenths % 10),
        _ => format!("{} {name}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_for_people() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (1234, "1.3 kB"),
            (12_345, "12 kB"),
            (1_400_000, "1.4 MB"),
            (5_368_709_120, "5.4 GB"),
            (u64::MAX, "1844674407 GB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
