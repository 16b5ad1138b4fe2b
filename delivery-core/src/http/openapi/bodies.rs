//! Schemas of request bodies. The endpoints read fields one by one, so there is no type to derive a schema from. An
//! external tool checks the schemas by sending requests that they allow and requests that they forbid.

use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, ArrayBuilder, KnownFormat, Object, ObjectBuilder, SchemaFormat, SchemaType,
    Type,
};

use crate::http::PlatformPath;
use crate::terms::{MAX_DAYS, MAX_USES};

/// The pattern of text without control characters.
pub(super) const LINE: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";
/// The pattern of the id of a key.
pub(super) const UUID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
/// An example of the id of a key.
const EXAMPLE: &str = "019aa8a0-5a00-7a5a-9a5a-5a5a5a5a5a5a";
/// The pattern of text without control characters, except line breaks and tabs.
const PROSE: &str = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]*$";

/// Returns the schemas of all bodies, with their names.
pub(super) fn schemas() -> [(&'static str, Object); 17] {
    [
        ("Event", event()),
        ("Order", order()),
        ("NewKey", new_key()),
        ("NewProduct", new_product()),
        ("NewPost", new_post()),
        ("TheKey", the_key()),
        ("RevokeKey", revoke_key()),
        ("ChangeKey", change_key()),
        ("ResendKey", resend_key()),
        ("TheMessage", the("A message.", ("id", json!("1878913024000000007")), id_of_a_list())),
        ("ApplyEvent", apply_event()),
        ("DismissEvent", dismiss_event()),
        ("ProductUpdate", product_update()),
        ("TheProduct", the("A product.", ("id", json!(1)), product())),
        ("PostUpdate", post_update()),
        ("ThePost", the("A post.", ("id", json!(1)), product())),
        ("TheCustomer", the("A person.", ("customer_email", json!("ada@example.com")), email())),
    ]
}

fn order() -> Object {
    ObjectBuilder::new()
        .description(Some("A paid order, as the platform tells of it."))
        .property("secret", text(1, None, None, "What the platform and the seller agreed on."))
        .property("order_id", text(1, Some(255), Some(LINE), "The platform's number of the order."))
        .property("product_id", product())
        .property("customer_email", email())
        .required("secret")
        .required("order_id")
        .required("product_id")
        .required("customer_email")
        .examples([json!({
            "secret": "the-platforms-secret",
            "order_id": "2026-1001",
            "product_id": 1,
            "customer_email": "ada@example.com",
        })])
        .build()
}

fn event() -> Object {
    ObjectBuilder::new()
        .description(Some("An event in the platform's own format, byte for byte as it was signed."))
        .build()
}

fn new_key() -> Object {
    let message =
        maybe(Type::Boolean).default(Some(json!(true))).description(Some("Whether the buyer gets an e-mail."));
    ObjectBuilder::new()
        .description(Some("A key that the seller issues by hand."))
        .property("product_id", product())
        .property("customer_email", email())
        .property("expires_days", days("Left out: as the product says."))
        .property("max_uses", uses("Left out: as the product says."))
        .property("send_email", message)
        .required("product_id")
        .required("customer_email")
        .examples([json!({ "product_id": 1, "customer_email": "ada@example.com", "expires_days": 30, "max_uses": 5 })])
        .build()
}

fn new_product() -> Object {
    let description = maybe(Type::String).max_length(Some(2000)).pattern(Some(PROSE)).default(Some(json!("")));
    let kind = maybe(Type::String).max_length(Some(64)).pattern(Some(LINE)).default(Some(json!("digital")));
    ObjectBuilder::new()
        .description(Some("A product, and the terms of its keys."))
        .property("name", text(1, Some(200), Some(LINE), "What the buyer reads."))
        .property("description", description)
        .property("type", kind)
        .property("content", text(1, None, Some(PROSE), "What a key unlocks, usually Markdown: up to 1 MiB in UTF-8."))
        .property("price", price())
        .property("expires_days", days("Left out: as the seller has set it for all."))
        .property("max_uses", uses("Left out: as the seller has set it for all."))
        .property("language", language())
        .property("refs", refs())
        .required("name")
        .required("content")
        .examples([json!({ "name": "Guide", "content": "# Guide", "price": 9.99 })])
        .build()
}

fn new_post() -> Object {
    let moment = maybe(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    let empty = ObjectBuilder::new().schema_type(Type::String).max_length(Some(0));
    let published = AnyOfBuilder::new().item(moment).item(empty);
    let published = published.description(Some("Listed from then on; now, where it is left out. From 1970 to 9999."));
    ObjectBuilder::new()
        .description(Some("A post."))
        .property("title", text(1, Some(200), Some(LINE), "One line."))
        .property("category", text(1, Some(64), Some(LINE), "What it is listed under."))
        .property("content", text(1, None, Some(PROSE), "Up to 1 MiB in UTF-8."))
        .property("published_at", published)
        .required("title")
        .required("category")
        .required("content")
        .examples([json!({ "title": "News", "category": "releases", "content": "A new chapter." })])
        .build()
}

fn the(meant: &str, (name, example): (&str, Value), schema: ObjectBuilder) -> Object {
    let whole = ObjectBuilder::new().description(Some(meant)).property(name, schema).required(name);
    whole.examples([json!({ name: example })]).build()
}

fn key_id() -> ObjectBuilder {
    let uuid = SchemaFormat::Custom("uuid".to_owned());
    ObjectBuilder::new().schema_type(Type::String).format(Some(uuid)).pattern(Some(UUID))
}

/// Returns the schema of an id that is a row number, from a list.
fn id_of_a_list() -> ObjectBuilder {
    text(1, Some(19), Some("^(0|-?[1-9][0-9]*)$"), "The id from the list.")
}

fn the_key() -> Object {
    the("A key.", ("id", json!(EXAMPLE)), key_id())
}

fn revoke_key() -> Object {
    let reason = maybe(Type::String).max_length(Some(200)).pattern(Some(LINE)).description(Some("Why."));
    ObjectBuilder::new()
        .description(Some("A key to withdraw."))
        .property("id", key_id())
        .property("reason", reason)
        .required("id")
        .examples([json!({ "id": EXAMPLE, "reason": "shared in a forum" })])
        .build()
}

fn change_key() -> Object {
    let at = maybe(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    let at = at.description(Some("From when on it is expired; a time of the past expires it. From 1970 to 9999."));
    let add = maybe(Type::Integer).minimum(Some(1)).maximum(Some(MAX_USES));
    ObjectBuilder::new()
        .description(Some(
            "New terms: one of `expires_days` and `expires_at`, one of `max_uses` and `add_uses`, or both.",
        ))
        .property("id", key_id())
        .property("expires_days", days("Left out: as it is."))
        .property("expires_at", at)
        .property("max_uses", uses("Left out: as it is."))
        .property("add_uses", add.description(Some("So many more. For a key that has a limit.")))
        .required("id")
        .examples([json!({ "id": EXAMPLE, "expires_days": 365, "add_uses": 5 })])
        .build()
}

fn resend_key() -> Object {
    ObjectBuilder::new()
        .description(Some("A key to send again."))
        .property("id", key_id())
        .property("customer_email", other_email("Where it is sent from now on, if the address was wrong."))
        .required("id")
        .examples([json!({ "id": EXAMPLE, "customer_email": "ada@example.com" })])
        .build()
}

fn apply_event() -> Object {
    let of = maybe(Type::Integer).minimum(Some(1)).maximum(Some(i64::MAX));
    ObjectBuilder::new()
        .description(Some("An event to apply again."))
        .property("id", id_of_a_list())
        .property("customer_email", other_email("The buyer's address, where the event has none."))
        .property("product_id", of.description(Some("What was bought, where the event names nothing that is known.")))
        .required("id")
        .examples([json!({ "id": "1878913024000000012", "product_id": 1 })])
        .build()
}

fn dismiss_event() -> Object {
    let event = maybe(Type::String).max_length(Some(19)).pattern(Some("^(0|-?[1-9][0-9]*)?$"));
    let platforms = PlatformPath::BUILT_IN.iter().map(|platform| platform.name()).collect::<Vec<_>>().join("|");
    let name = maybe(Type::String).max_length(Some(255)).pattern(Some(LINE));
    ObjectBuilder::new()
        .description(Some("An event to put aside, by its `id`; or all of a product, by `platform` and `product_ref`."))
        .property("id", event.description(Some("The id from the list.")))
        .property("platform", maybe(Type::String).pattern(Some(format!("^({platforms})?$"))))
        .property("product_ref", name.description(Some("What the platform calls the product.")))
        .examples([json!({ "platform": "stripe", "product_ref": "plink_1" })])
        .build()
}

fn other_email(meant: &str) -> ObjectBuilder {
    let email = maybe(Type::String).max_length(Some(254));
    email.format(Some(SchemaFormat::KnownFormat(KnownFormat::Email))).description(Some(meant))
}

fn product_update() -> Object {
    let optional = |most: Option<usize>, pattern| maybe(Type::String).max_length(most).pattern(Some(pattern));
    ObjectBuilder::new()
        .description(Some("A product, and what it says from now on. What is left out stays."))
        .property("id", product())
        .property("name", optional(Some(200), LINE))
        .property("description", optional(Some(2000), PROSE))
        .property("type", optional(Some(64), LINE))
        .property("content", optional(None, PROSE))
        .property("price", price())
        .property("expires_days", days("Left out: as it is."))
        .property("max_uses", uses("Left out: as it is."))
        .property("language", language())
        .property("refs", refs())
        .required("id")
        .examples([json!({ "id": 1, "price": 12.5 })])
        .build()
}

fn post_update() -> Object {
    let optional = |most: Option<usize>, pattern| maybe(Type::String).max_length(most).pattern(Some(pattern));
    let at = maybe(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    ObjectBuilder::new()
        .description(Some("A post, and what it says from now on. What is left out stays."))
        .property("id", product())
        .property("title", optional(Some(200), LINE))
        .property("category", optional(Some(64), LINE))
        .property("content", optional(None, PROSE))
        .property("published_at", at.description(Some("From 1970 to 9999.")))
        .required("id")
        .examples([json!({ "id": 1, "title": "News" })])
        .build()
}

fn text(least: usize, most: Option<usize>, pattern: Option<&str>, meant: &str) -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(least)).max_length(most);
    text.pattern(pattern).description(Some(meant))
}

fn product() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(i64::MAX))
}

fn email() -> ObjectBuilder {
    let email = ObjectBuilder::new().schema_type(Type::String).max_length(Some(254));
    email.format(Some(SchemaFormat::KnownFormat(KnownFormat::Email))).description(Some("Where the key is sent."))
}

fn days(left_out: &str) -> ObjectBuilder {
    number_or_never(MAX_DAYS.into()).description(Some(format!("Days from issue, or -1: never. {left_out}")))
}

fn uses(left_out: &str) -> ObjectBuilder {
    number_or_never(MAX_USES.into()).description(Some(format!("How often, or -1: unlimited. {left_out}")))
}

/// Returns the schema of a number of days or uses: 1 to `most`, or -1 for never or unlimited. 0 is invalid.
fn number_or_never(most: i64) -> ObjectBuilder {
    let not_zero = [("not", json!({ "const": 0 }))].into_iter().collect();
    maybe(Type::Integer).minimum(Some(-1)).maximum(Some(most)).extensions(Some(not_zero))
}

/// Returns the schema of a price. It does not declare `multipleOf: 0.0001`, because validators that compute with
/// doubles would reject 19.99.
fn price() -> ObjectBuilder {
    maybe(Type::Number)
        .minimum(Some(0))
        .exclusive_maximum(Some(1_000_000_000_000_000_i64))
        .description(Some("At most four digits after the point; kept digit for digit."))
}

fn language() -> ObjectBuilder {
    let tag = maybe(Type::String).max_length(Some(35)).pattern(Some("^([A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*)?$"));
    tag.description(Some("Of e-mails about it, such as en or pt-BR. Left out: the shop's."))
}

/// Returns the schema of the commerce platforms' names for a product.
fn refs() -> ObjectBuilder {
    let name = text(1, Some(255), Some(LINE), "What the platform calls it.");
    let names = ArrayBuilder::new().items(name).max_items(Some(crate::product::MOST_REFS)).build();
    let refs = PlatformPath::BUILT_IN
        .iter()
        .fold(maybe(Type::Object), |refs, platform| refs.property(platform.name(), names.clone()));
    refs.additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .description(Some("What commerce platforms call it. No other product has the same name on a platform."))
}

/// Returns the schema of an optional value. Null means the same as leaving it out.
fn maybe(kind: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type([kind, Type::Null].into_iter().collect::<SchemaType>())
}
