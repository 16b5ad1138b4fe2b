//! Snapshots leave out the lists of platforms on pages of the desk, so that a new platform changes few of them. One row
//! for each list keeps it whole: it calls [`Row::with_all_platforms`](crate::row::Row::with_all_platforms).

use delivery_core::http::PlatformPath;

/// A written answer without its lists of platforms. What is selected in a list stays, and so does what is unfolded. Its
/// `content-length`, if it is right, becomes the length of what is left.
pub fn without_platforms(answer: &str) -> String {
    let parts = answer.split_once("\n\n").and_then(|(head, rest)| Some((head, rest.rsplit_once("\n\n(")?)));
    let Some((head, (whole, effects))) = parts else { return answer.to_owned() };
    let names: Vec<&str> = PlatformPath::built_in().map(PlatformPath::name).collect();
    let mut page = whole.replace(&names.join(", "), "…");
    let options = names.iter().map(|name| (format!("<option value=\"{name}\">"), "</option>"));
    let actors = names.iter().map(|name| (format!("<option value=\"platform:{name}\">"), ""));
    let folds = [("<details class=\"fold\"><summary>".to_owned(), "</details>")];
    for (start, end) in options.chain(actors).chain(folds) {
        while let Some((before, rest)) = page.split_once(&start) {
            page = format!("{before}{}", rest.split_once(end).unwrap().1);
        }
    }
    let length = |page: &str| format!("content-length: {}", page.len());
    format!("{}\n\n{page}\n\n({effects}", head.replace(&length(whole), &length(&page)))
}
