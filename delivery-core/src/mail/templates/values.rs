//! The variables that templates may use.

use chrono::{DateTime, Datelike, Utc};
use minijinja::{Value, context};

use crate::clock::timestamp;
use crate::email::Email;
use crate::host_ref::HostRef;
use crate::key::{Key, KeyText, Status};
use crate::ledger::MessageKind;
use crate::mail::{Brand, MailLinks};
use crate::product::Product;
use crate::terms::NEVER;

/// The maximum number of keys in one e-mail. If a buyer has more keys, only the newest are listed, because mail
/// programs cut off longer e-mails.
pub(in crate::mail) const MOST_KEYS: usize = 200;

/// A key that an e-mail shows, with its product.
#[derive(Clone, Copy)]
pub(in crate::mail) struct Shown<'a> {
    pub(in crate::mail) key: &'a Key,
    /// The key's status when the e-mail is rendered.
    pub(in crate::mail) status: Status,
    pub(in crate::mail) text: &'a KeyText,
    /// Whether a subscription renews the key.
    pub(in crate::mail) is_subscribed: bool,
    pub(in crate::mail) product: &'a Product,
}

/// The values that are the same in all e-mails of a service.
#[derive(Clone, Copy)]
pub(in crate::mail) struct ServiceValues<'a> {
    pub(in crate::mail) base_url: &'a str,
    pub(in crate::mail) links: &'a MailLinks,
    pub(in crate::mail) brand: &'a Brand,
    /// Whether the `curl` command that fetches a product is shown for every type of product, not only for the type
    /// `api`.
    pub(in crate::mail) shows_commands: bool,
}

/// Returns the variables of an e-mail to `email`.
pub(super) fn values(keys: &[Shown<'_>], email: &str, service: ServiceValues<'_>, language: &str) -> Value {
    all(keys.iter().map(|shown| value(*shown, service)).collect(), (email, service, language))
}

const EXAMPLE_BUYER: &str = "buyer@example.com";

/// Returns the variables of example e-mails. Every template must render with each of these examples. The examples are:
/// a key that expires and was used, a key without expiry and use limit, an expired key, a key that a subscription
/// renews, and several keys. One example has no links.
pub(super) fn examples() -> [Value; 6] {
    let all = |(keys, has_links): (Vec<Value>, bool)| {
        let base_url = "https://shop.example";
        let links = if has_links { MailLinks::of(base_url, true, true) } else { MailLinks::default() };
        let brand = if has_links { Brand::default().name("Example shop") } else { Brand::default() };
        let service = ServiceValues { base_url, links: &links, brand: &brand, shows_commands: false };
        all(keys, (EXAMPLE_BUYER, service, "en"))
    };
    let used = example(true, Status::Valid, false);
    let endless = example(false, Status::Valid, false);
    let over = example(true, Status::Expired, false);
    let renewed = example(true, Status::Valid, true);
    [
        (vec![used.clone()], true),
        (vec![used.clone()], false),
        (vec![endless.clone()], true),
        (vec![over.clone()], true),
        (vec![renewed.clone()], true),
        (vec![used, endless, over, renewed], true),
    ]
    .map(all)
}

/// Returns the variables of an e-mail about an example key for the product `sold`. If `sold` is `None`, the product is
/// an example too.
pub(super) fn example_values(
    kind: MessageKind,
    sold: Option<&Product>,
    (service, language): (ServiceValues<'_>, &str),
) -> Value {
    let one = |ends| {
        let example = example(ends, Status::Valid, false);
        let Some(sold) = sold else { return example };
        context! { product => product(sold), command => is_command(sold, service), ..example }
    };
    // The template for lost keys lists all keys of the buyer, so show two.
    let keys =
        if kind.template() == MessageKind::Lost.template() { vec![one(true), one(false)] } else { vec![one(true)] };
    all(keys, (EXAMPLE_BUYER, service, language))
}

fn example(ends: bool, status: Status, subscribed: bool) -> Value {
    let at = "2027-11-21T10:00:00Z".parse().unwrap_or(DateTime::UNIX_EPOCH);
    context! {
        key => "dlv_example",
        key_id => "0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a01",
        order => context! { id => "1001", source => "shop", host_ref => Value::from(()) },
        status => status.as_str(),
        subscribed,
        command => true,
        product => context! { id => 1, name => "Example", description => "", type => "api", host_ref => Value::from(()) },
        ..terms(if ends { at } else { NEVER }, if ends { (3, 1) } else { (-1, 0) })
    }
}

fn all(mut keys: Vec<Value>, (email, service, language): (&str, ServiceValues<'_>, &str)) -> Value {
    let first = keys.first().cloned().unwrap_or_default();
    let omits = keys.len() > MOST_KEYS;
    keys.truncate(MOST_KEYS);
    let ServiceValues { base_url, links: MailLinks { page, fetch, lost }, brand, .. } = service;
    let [colour, ink] = brand.colours.clone().unwrap_or_else(|| ["#16191f", "#ffffff"].map(str::to_owned));
    let shop = context! {
        name => brand.name.clone(), support => brand.reply_to.as_ref().map(Email::as_str), colour, ink,
        is_plain => brand.colours.is_none(),
    };
    context! { keys, omits, email, base_url, page, fetch, lost, shop, language, ..first }
}

fn value(Shown { key, status, text, is_subscribed, product: sold }: Shown<'_>, service: ServiceValues<'_>) -> Value {
    let order = key.granted().order.as_ref();
    context! {
        status => status.as_str(),
        key => text.expose(),
        key_id => key.id().to_string(),
        order => context! {
            id => order.map(|order| order.id.as_str()),
            source => order.map(|order| order.source.as_str()),
            host_ref => key.granted().host_ref.as_ref().map(HostRef::as_str),
        },
        subscribed => is_subscribed,
        command => is_command(sold, service),
        product => product(sold),
        ..terms(key.expires_at(), (key.limit().as_count(), key.used()))
    }
}

/// Returns whether to show the command that fetches the product.
fn is_command(product: &Product, service: ServiceValues<'_>) -> bool {
    service.shows_commands || service.links.page.is_none() || product.kind().eq_ignore_ascii_case("api")
}

fn product(product: &Product) -> Value {
    context! {
        id => product.id().get(), name => product.name(), description => product.description(), type => product.kind(),
        host_ref => product.host_ref().map(HostRef::as_str),
    }
}

fn terms(expires_at: DateTime<Utc>, (max_uses, used_count): (i64, u64)) -> Value {
    let ends = (expires_at < NEVER).then(|| {
        context! {
            year => expires_at.year(), month => expires_at.month(), day => expires_at.day(),
            time => expires_at.format("%H:%M").to_string()
        }
    });
    let used = i64::try_from(used_count).unwrap_or(i64::MAX);
    let remaining_uses = if max_uses == -1 { -1 } else { max_uses.saturating_sub(used).max(0) };
    context! { expires_at => timestamp(expires_at), ends, max_uses, used_count, remaining_uses }
}
