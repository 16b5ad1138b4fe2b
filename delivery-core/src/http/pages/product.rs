//! Listing, adding, editing and archiving products.

use std::collections::BTreeSet;

use minijinja::{Value, context};

use super::form::{Form, FormError, digest, is_digest, said};
use super::frame::desk;
use super::lists::{Chosen, PAGE, links, product_id};
use super::shown::{archived, preview, price};
use super::{ApiError, PageRequest, SignedIn, references, setup};
use crate::http::Reply;
use crate::http::parameter::BEFORE;
use crate::product::{Listing, NewProduct, Product, ProductId};
use crate::store::StoreError;
use crate::terms::{OwnTerms, UseLimit, Validity};

/// The names of the fields of the form.
const FIELDS: &[&str] =
    &["id", "seen", "name", "description", "content", "type", "price", "days", "uses", "language", "refs"];

pub(super) async fn list(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let (listed, before) = (request.delivery.products().await?, product_id(&request, BEFORE.name)?);
    let mut newest = listed.iter().rev().filter(|it| before.is_none_or(|before| it.id < before));
    let shown: Vec<&Listing> = newest.by_ref().take(PAGE).collect();
    let last = shown.last().filter(|_| newest.next().is_some()).map(|it| it.id.to_string());
    let product = |it: &&Listing| {
        let (id, price) = (it.id.get(), price(it.price));
        context! { id, name => it.name.clone(), kind => it.kind.clone(), price }
    };
    let archived: Vec<(i64, String)> = match before {
        None => archived(request.delivery).await?.into_iter().map(|(id, name)| (id.get(), name)).collect(),
        Some(_) => Vec::new(),
    };
    let links = links(&request, "/desk/products", &Chosen::new(), last, &[]);
    let values = context! {
        products => shown.iter().map(product).collect::<Vec<_>>(), archived, links,
        ..desk(&request, &seller, "/desk/products")
    };
    request.page("products.html", values)
}

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    if let Some(form) = &request.form {
        return submitted(&request, &seller, form).await;
    }
    let product = match product_id(&request, "id")? {
        Some(id) => Some(request.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?),
        None => None,
    };
    page(&request, &seller, (&fields(&request, product.as_deref()), product.as_deref()), None).await
}

/// Returns the values that the form shows for `product`, or for a new product if `product` is `None`. For an existing
/// product, the field `seen` contains a [`digest`] of these values, by which `save` notices that somebody else has
/// changed the product.
fn fields(request: &PageRequest<'_>, product: Option<&Product>) -> Form {
    let Some(product) = product else { return Form::of([("type", "digital".to_owned())]) };
    let shown = shown(product);
    let seen = digest(request, &shown.each_ref().map(|(_, value)| value.as_str()));
    Form::of(shown).with("id", product.id().to_string()).with("seen", seen)
}

fn shown(product: &Product) -> [(&'static str, String); 9] {
    let terms = product.terms();
    let refs = product.refs().iter().map(|(source, name)| format!("{source} {name}\n"));
    [
        ("name", product.name().to_owned()),
        ("description", product.description().to_owned()),
        ("content", product.content().to_owned()),
        ("type", product.kind().to_owned()),
        ("price", price(product.price())),
        ("days", terms.validity.map(|validity| validity.as_days().to_string()).unwrap_or_default()),
        ("uses", terms.limit.map(|limit| limit.as_count().to_string()).unwrap_or_default()),
        ("language", product.language().map(ToString::to_string).unwrap_or_default()),
        ("refs", refs.collect()),
    ]
}

/// Returns the product that the form describes. The host application's own name for the product is not in the form, so
/// it is taken from `was`, the product before the change.
fn facts(request: &PageRequest<'_>, form: &Form, was: Option<&Product>) -> Result<NewProduct, FormError> {
    let mut facts = NewProduct::new(form.text("name").trim()).map_err(FormError::of("name", "The name"))?;
    if form.given("content").is_none() {
        return Err(FormError::new("content", "The content must not be empty."));
    }
    facts = facts.content(form.text("content")).map_err(FormError::of("content", "The content"))?;
    let description = form.text("description").trim();
    facts = facts.description(description).map_err(FormError::of("description", "The description"))?;
    if let Some(kind) = form.given("type") {
        facts = facts.kind(kind).map_err(FormError::of("type", "The type"))?;
    }
    if let Some(price) = form.given("price") {
        facts = facts.price(price.parse().map_err(FormError::of("price", "The price"))?);
    }
    facts = facts.terms(terms(form)?).refs(references::read(request, form.text("refs"), was.map(Product::refs))?);
    if let Some(language) = form.given("language") {
        facts = facts.language(language.parse().map_err(FormError::of("language", "The language"))?);
    }
    Ok(match was.and_then(Product::host_ref) {
        Some(host_ref) => facts.host_ref(host_ref.clone()),
        None => facts,
    })
}

/// Reads the validity and the use limit of keys from a form. An empty field leaves its term unset.
pub(super) fn terms(form: &Form) -> Result<OwnTerms, FormError> {
    let validity = form.number("days", "The days")?.map(Validity::from_days).transpose();
    let limit = form.number("uses", "The uses")?.map(UseLimit::from_count).transpose();
    Ok(OwnTerms {
        validity: validity.map_err(FormError::of("days", "The days"))?,
        limit: limit.map_err(FormError::of("uses", "The uses"))?,
    })
}

/// Returns the product's references as the form contains them, one on each line. If the seller has filled in the fields
/// `platform` and `ref` for another reference, a line for it is added at the end.
fn with_added(form: &Form) -> String {
    let lines = form.text("refs").trim_end();
    match form.given("ref") {
        Some(added) => format!("{lines}\n{} {added}\n", form.text("platform")).trim_start_matches('\n').to_owned(),
        None => form.text("refs").to_owned(),
    }
}

async fn submitted(request: &PageRequest<'_>, seller: &SignedIn, form: &Form) -> Result<Reply, ApiError> {
    let typed = form.clone().with("refs", with_added(form));
    let id = match form.given("id") {
        Some(id) => Some(id.parse().ok().and_then(|id| ProductId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?),
        None => None,
    };
    let was = match id {
        Some(id) => Some(request.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?),
        None => None,
    };
    let shown = (&typed, was.as_deref());
    let facts = match facts(request, &typed, was.as_deref()) {
        Ok(facts) => facts,
        Err(fault) => return page(request, seller, shown, Some(&fault)).await,
    };
    if form.text("do") == "preview" {
        return page(request, seller, shown, None).await;
    }
    let saved = if let Some(id) = id {
        save(request, seller, (id, form.text("seen")), facts).await.map(|saved| saved.map(|()| id))
    } else {
        let added = request.delivery.desk(&seller.actor).add_product_once(facts).await;
        added.map(|product| Some(product.id()))
    };
    match saved {
        Ok(Some(id)) => Ok(request.go_to(&format!("/desk/product?id={id}&done=saved"))),
        Ok(None) => Err(ApiError::NOT_FOUND),
        Err(StoreError::Refused { .. }) => {
            let fault = FormError::new("refs", "Another product has one of these references.");
            page(request, seller, shown, Some(&fault)).await
        }
        Err(StoreError::Conflict { .. }) => {
            let fault =
                "Somebody else changed this product since you opened it. Open it again, and repeat your change.";
            page(request, seller, shown, Some(&FormError::new("", fault))).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Saves the values of the form. If somebody else has changed the product since the form was opened, nothing is saved,
/// and the seller sees an error. There is no error if the product already has the values of the form.
async fn save(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    (id, seen): (ProductId, &str),
    facts: NewProduct,
) -> Result<Option<()>, StoreError> {
    let seller_desk = request.delivery.desk(&seller.actor);
    let revised = seller_desk.revise_product(id, |product| {
        let is_shown = || is_digest(request, &shown(product).each_ref().map(|(_, value)| value.as_str()), seen);
        let is_known = seen.is_empty() || *product.facts() == facts || is_shown();
        if is_known { Ok(facts.clone()) } else { Err(()) }
    });
    match revised.await? {
        Ok(product) => Ok(product.map(drop)),
        Err(()) => Err(StoreError::Conflict { source: None }),
    }
}

/// Renders the form with these values, for this product or for a new one.
async fn page(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    (form, product): (&Form, Option<&Product>),
    fault: Option<&FormError>,
) -> Result<Reply, ApiError> {
    let preview = preview(request.delivery, form, fault).await?;
    let mut languages: BTreeSet<String> = request.delivery.email_languages().iter().map(ToString::to_string).collect();
    languages.extend(form.given("language").map(str::to_owned));
    let values = context! {
        product => form.values(FIELDS), is_archived => product.is_some_and(Product::is_archived), preview,
        languages => languages.into_iter().collect::<Vec<_>>(), platforms => setup::names(request.delivery),
        files => Value::from(()), ..said(fault, desk(request, seller, "/desk/products"))
    };
    #[cfg(feature = "files")]
    if let Some(product) = product
        && request.delivery.has_files()
    {
        let files = super::file_list::listed(product.files());
        return Ok(request.page_with_forms("product.html", context! { files, ..values })?.with_pictures());
    }
    Ok(request.page_with_forms("product.html", values)?.with_pictures())
}

/// Shows the form with the stored values of a product, and an error about its files.
#[cfg(feature = "files")]
pub(super) async fn page_of(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    id: ProductId,
    sentence: &str,
) -> Result<Reply, ApiError> {
    let product = request.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?;
    page(request, seller, (&fields(request, Some(&product)), Some(&product)), Some(&FormError::new("files", sentence)))
        .await
}

pub(super) async fn archive(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    if let Some(form) = &request.form {
        let id = form.text("id").parse().ok().and_then(|id| ProductId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?;
        let desk = request.delivery.desk(&seller.actor);
        let (changed, done) = match form.text("do") {
            "restore" => (desk.restore_product(id).await?, "on_sale"),
            "" => (desk.archive_product(id).await?, "archived"),
            _ => return Err(ApiError::MALFORMED),
        };
        changed.ok_or(ApiError::NOT_FOUND)?;
        return Ok(request.go_to(&format!("/desk/product?id={id}&done={done}")));
    }
    let id = product_id(&request, "id")?.ok_or(ApiError::NOT_FOUND)?;
    let product = request.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?;
    let values = context! {
        title => "Stop selling this product",
        sentence => "It is neither listed nor sold any more. Keys that were sold before still open it.",
        button => "Stop selling it",
        fields => Vec::<Value>::new(),
        about => [("Product", product.name().to_owned())],
        action => "/desk/product/archive",
        hidden => [("id", id.to_string())],
        back => format!("/desk/product?id={id}"),
        is_dangerous => true,
        ..desk(&request, &seller, "/desk/products")
    };
    request.page("confirm.html", values)
}
