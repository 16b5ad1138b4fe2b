//! Query parameters of pages, and the parts that the lists of the desk share: links between pages, filters, and options
//! of select elements.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use super::{ApiError, PageRequest, base};
use crate::delivery::Delivery;
use crate::http::parameter::{BEFORE, WHAT};
use crate::http::query;
use crate::order::Source;
use crate::product::ProductId;

/// The maximum number of rows on a page of a list. Links lead to the pages with the other rows.
pub(super) const PAGE: usize = 50;
/// The maximum number of entries in the URL parameter `back`, which lists where the earlier pages begin. Each entry is
/// the value of the parameter `before` of such a page, and has up to 36 characters.
const STARTS: usize = 50;
/// If `back` would have more than [`STARTS`] entries, this entry replaces the first ones.
const CUT: &str = "-";

/// Returns the links below a list at `path`: to the newest page, to the page before this one, to the next page, and to
/// downloads of the list as tables. `before` is the start of the next page. Each of `tables` is the name of an export
/// and the text of its link. The links keep the filters, except empty ones.
///
/// A store reads a list in one direction only. So the URL of each page contains the starts of the pages before it, in
/// the parameter `back`: see [`around`].
pub(super) fn links(
    request: &PageRequest<'_>,
    path: &str,
    filters: &Chosen,
    before: Option<String>,
    tables: &[(&str, &'static str)],
) -> Value {
    let link = |path: &str, more: &[(&str, &str)]| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let pairs = filters.iter().map(|(name, value)| (*name, value.as_str())).chain(more.iter().copied());
        query.extend_pairs(pairs.filter(|(_, value)| !value.is_empty()));
        format!("{}{path}?{}", base(request.delivery), query.finish()).trim_end_matches('?').to_owned()
    };
    let parameter = |name| query::parameter(request.call, name).ok().flatten().unwrap_or_default();
    let pages = around(&parameter(BEFORE.name), &parameter("back"), before);
    let [newest, newer, next] =
        pages.map(|page| page.map(|[before, back]| link(path, &[(BEFORE.name, &before), ("back", &back)])));
    let tables: Vec<_> =
        tables.iter().map(|(what, text)| (link("/desk/export", &[(WHAT.name, what)]), *text)).collect();
    context! { newest, newer, next, tables }
}

/// Returns the values of the parameters `before` and `back` for three pages of a list: the newest page, the page before
/// this one, and the next page. `here` and `back` are the values of `before` and `back` for this page. `next` is the
/// start of the next page. An entry is `None` if the list needs no link to that page, or if the start of that page is
/// not known.
fn around(here: &str, back: &str, next: Option<String>) -> [Option<[String; 2]>; 3] {
    let mut starts: Vec<&str> = back.split(',').filter(|start| !start.is_empty()).collect();
    let newest = (!starts.is_empty()).then(<[String; 2]>::default);
    let newer = match starts.split_last() {
        Some((&CUT, _)) => None,
        Some((last, rest)) => Some([(*last).to_owned(), rest.join(",")]),
        None => (!here.is_empty()).then(<[String; 2]>::default),
    };
    starts.extend((!here.is_empty()).then_some(here));
    if starts.len() > STARTS {
        starts.splice(..=starts.len() - STARTS, [CUT]);
    }
    [newest, newer, next.map(|next| [next, starts.join(",")])]
}

/// The values of a list's filters, by the names of their query parameters. The value is "" for a filter that is not
/// used.
pub(super) type Chosen = BTreeMap<&'static str, String>;

pub(super) fn chosen(request: &PageRequest<'_>, names: &[&'static str]) -> Result<Chosen, ApiError> {
    let one = |name: &&'static str| Ok((*name, query::parameter(request.call, name)?.unwrap_or_default().into_owned()));
    names.iter().map(one).collect()
}

/// Returns the options of a select element that lists platforms. If the value chosen for the filter `filter` is not
/// among them, this value is added as an option.
pub(super) fn sources(delivery: &Delivery, chosen: &Chosen, filter: &str) -> Vec<(String, String)> {
    let mut names: Vec<String> = delivery.inner.platforms.names().map(ToString::to_string).collect();
    names.push(Source::webhook().to_string());
    let other = chosen.get(filter).filter(|name| !name.is_empty() && !names.contains(name)).cloned();
    names.extend(other);
    names.into_iter().map(|name| (name.clone(), name)).collect()
}

/// Returns the options of a select element for these names: the value and the label of each. In labels, spaces replace
/// underscores.
pub(super) fn options(names: impl IntoIterator<Item = &'static str>) -> Vec<(&'static str, String)> {
    names.into_iter().map(|name| (name, name.replace('_', " "))).collect()
}

/// Returns a query parameter parsed as `T`. Returns `None` if it is absent or empty. A malformed value is an error.
pub(super) fn parameter<T: std::str::FromStr>(request: &PageRequest<'_>, name: &str) -> Result<Option<T>, ApiError> {
    let Some(text) = query::parameter(request.call, name).map_err(|_| ApiError::MALFORMED)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| ApiError::MALFORMED)
}

/// Returns a query parameter that is the id of a product.
pub(super) fn product_id(request: &PageRequest<'_>, name: &str) -> Result<Option<ProductId>, ApiError> {
    let number: Option<i64> = parameter(request, name)?;
    number.map(ProductId::new).transpose().map_err(|_| ApiError::MALFORMED)
}

/// Returns the options of a select element that lists products: the value and the label of each.
pub(super) fn choices(names: &BTreeMap<ProductId, String>) -> Vec<(String, String)> {
    names.iter().map(|(id, name)| (id.to_string(), format!("{name} ({id})"))).collect()
}
