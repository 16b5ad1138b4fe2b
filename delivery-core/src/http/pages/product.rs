//! Listing, adding, editing and archiving products.

use std::collections::BTreeSet;

use minijinja::{Value, context};

use super::form::{Fault, Form, digest, said};
use super::shown::{Chosen, PAGE, archived, desk, links, preview, price, product_id};
use super::{Answering, ApiError, PageRequest, SignedIn, references, setup};
use crate::http::Reply;
use crate::product::{Listing, NewProduct, Product, ProductId};
use crate::store::StoreError;
use crate::terms::{OwnTerms, UseLimit, Validity};
use crate::text::Invalid;

pub(super) fn list(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let (listed, before) = (visit.delivery.products().await?, product_id(&visit, "before")?);
        let mut newest = listed.iter().rev().filter(|it| before.is_none_or(|before| it.id < before));
        let shown: Vec<&Listing> = newest.by_ref().take(PAGE).collect();
        let last = shown.last().filter(|_| newest.next().is_some()).map(|it| it.id.to_string());
        let product = |it: &&Listing| {
            let (id, price) = (it.id.get(), price(it.price));
            context! { id, name => it.name.clone(), kind => it.kind.clone(), price }
        };
        let archived: Vec<(i64, String)> = match before {
            None => archived(visit.delivery).await?.into_iter().map(|(id, name)| (id.get(), name)).collect(),
            Some(_) => Vec::new(),
        };
        let links = links(&visit, "/desk/products", &Chosen::new(), last, &[]);
        let values = context! {
            products => shown.iter().map(product).collect::<Vec<_>>(), archived, links,
            ..desk(&visit, &seller, "/desk/products")
        };
        visit.page("products.html", values)
    })
}

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        if let Some(form) = &visit.form {
            return submitted(&visit, &seller, form).await;
        }
        let product = match product_id(&visit, "id")? {
            Some(id) => Some(visit.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?),
            None => None,
        };
        let mut typed = Typed::of(product.as_deref());
        typed.seen = product.as_deref().map(|product| shown(&visit, product)).unwrap_or_default();
        page(&visit, &seller, &typed, None).await
    })
}

/// The values in the fields of the form, as the seller typed them.
#[derive(Default)]
struct Typed {
    id: String,
    name: String,
    description: String,
    content: String,
    kind: String,
    price: String,
    days: String,
    uses: String,
    language: String,
    refs: String,
    is_archived: bool,
    preview: bool,
    /// The [`digest`] of the values that the product had when the form was opened.
    seen: String,
}

impl Typed {
    fn of(product: Option<&Product>) -> Self {
        let Some(product) = product else { return Self { kind: "digital".to_owned(), ..Self::default() } };
        let terms = product.terms();
        let refs = product.refs().iter().map(|(source, name)| format!("{source} {name}\n"));
        Self {
            id: product.id().to_string(),
            name: product.name().to_owned(),
            description: product.description().to_owned(),
            content: product.content().to_owned(),
            kind: product.kind().to_owned(),
            price: price(product.price()),
            days: terms.validity.map(|validity| validity.as_days().to_string()).unwrap_or_default(),
            uses: terms.limit.map(|limit| limit.as_count().to_string()).unwrap_or_default(),
            language: product.language().map(ToString::to_string).unwrap_or_default(),
            refs: refs.collect(),
            is_archived: product.is_archived(),
            preview: false,
            seen: String::new(),
        }
    }

    fn read(form: &Form) -> Self {
        let text = |name| form.text(name).to_owned();
        Self {
            id: text("id"),
            name: text("name"),
            description: text("description"),
            content: text("content"),
            kind: text("type"),
            price: text("price"),
            days: text("days"),
            uses: text("uses"),
            language: text("language"),
            refs: with_added(form),
            is_archived: false,
            preview: form.text("do") == "preview",
            seen: text("seen"),
        }
    }

    fn value(&self) -> Value {
        context! {
            id => self.id.clone(), name => self.name.clone(), description => self.description.clone(),
            content => self.content.clone(), kind => self.kind.clone(), price => self.price.clone(), days => self.days.clone(),
            uses => self.uses.clone(), language => self.language.clone(), refs => self.refs.clone(),
            is_archived => self.is_archived, seen => self.seen.clone(),
        }
    }

    /// Returns the product that the form describes. The host application's reference is not in the form, so it is taken
    /// from `was`, the product before the change.
    fn facts(&self, visit: &PageRequest<'_>, was: Option<&Product>) -> Result<NewProduct, Fault> {
        let said =
            |field, called: &'static str| move |expected: Invalid| Fault::new(field, format!("{called} {expected}."));
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let number = |field, called: &'static str, text: &str| {
            let wrong = |_| Fault::new(field, format!("{called} must be a number."));
            given(text).map(|text| text.parse::<i64>().map_err(wrong)).transpose()
        };
        let mut facts = NewProduct::new(self.name.trim()).map_err(said("name", "The name"))?;
        if self.content.trim().is_empty() {
            return Err(Fault::new("content", "The content must not be empty."));
        }
        facts = facts.content(self.content.as_str()).map_err(said("content", "The content"))?;
        facts = facts.description(self.description.trim()).map_err(said("description", "The description"))?;
        if let Some(kind) = given(&self.kind) {
            facts = facts.kind(kind).map_err(said("type", "The type"))?;
        }
        if let Some(price) = given(&self.price) {
            facts = facts.price(price.parse().map_err(said("price", "The price"))?);
        }
        let validity = number("days", "The days", &self.days)?
            .map(Validity::from_days)
            .transpose()
            .map_err(said("days", "The days"))?;
        let limit = number("uses", "The uses", &self.uses)?
            .map(UseLimit::from_count)
            .transpose()
            .map_err(said("uses", "The uses"))?;
        facts = facts.terms(OwnTerms { validity, limit }).refs(references::read(
            visit,
            &self.refs,
            was.map(Product::refs),
        )?);
        if let Some(language) = given(&self.language) {
            facts = facts.language(language.parse().map_err(said("language", "The language"))?);
        }
        if let Some(host_ref) = was.and_then(Product::host_ref) {
            facts = facts.host_ref(host_ref.clone());
        }
        Ok(facts)
    }
}

/// Returns the lines of references, and the one that the seller adds by its platform and its ID.
fn with_added(form: &Form) -> String {
    let lines = form.text("refs").trim_end();
    match form.given("ref") {
        Some(added) => format!("{lines}\n{} {added}\n", form.text("platform")).trim_start_matches('\n').to_owned(),
        None => form.text("refs").to_owned(),
    }
}

async fn submitted(visit: &PageRequest<'_>, seller: &SignedIn, form: &Form) -> Result<Reply, ApiError> {
    let mut typed = Typed::read(form);
    let id = match form.given("id") {
        Some(id) => Some(id.parse().ok().and_then(|id| ProductId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?),
        None => None,
    };
    let was = match id {
        Some(id) => Some(visit.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?),
        None => None,
    };
    typed.is_archived = was.as_ref().is_some_and(|product| product.is_archived());
    let facts = match typed.facts(visit, was.as_deref()) {
        Ok(facts) => facts,
        Err(fault) => return page(visit, seller, &typed, Some(&fault)).await,
    };
    if typed.preview {
        return page(visit, seller, &typed, None).await;
    }
    let saved = if let Some(id) = id {
        save(visit, seller, (id, form.text("seen")), facts).await.map(|saved| saved.map(|()| id))
    } else {
        let added = visit.delivery.desk(&seller.actor).add_product_once(facts).await;
        added.map(|product| Some(product.id()))
    };
    match saved {
        Ok(Some(id)) => Ok(visit.go_to(&format!("/desk/product?id={id}&done=saved"))),
        Ok(None) => Err(ApiError::NOT_FOUND),
        Err(StoreError::Refused { .. }) => {
            let fault = Fault::new("refs", "Another product has one of these references.");
            page(visit, seller, &typed, Some(&fault)).await
        }
        Err(StoreError::Conflict { .. }) => {
            let fault =
                "Somebody else changed this product since you opened it. Open it again, and repeat your change.";
            page(visit, seller, &typed, Some(&Fault::new("", fault))).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Saves the values of the form. If somebody else has changed the product since the form was opened, nothing is saved,
/// and the seller sees an error. There is no error if the product already has the values of the form.
async fn save(
    visit: &PageRequest<'_>,
    seller: &SignedIn,
    (id, seen): (ProductId, &str),
    facts: NewProduct,
) -> Result<Option<()>, StoreError> {
    let seller_desk = visit.delivery.desk(&seller.actor);
    let revised = seller_desk.revise_product(id, |product| {
        let is_known = seen.is_empty() || *product.facts() == facts || shown(visit, product) == seen;
        if is_known { Ok(facts.clone()) } else { Err(()) }
    });
    match revised.await? {
        Ok(product) => Ok(product.map(drop)),
        Err(()) => Err(StoreError::Conflict { source: None }),
    }
}

/// Returns the [`digest`] of the values that the form shows for a product.
fn shown(visit: &PageRequest<'_>, product: &Product) -> String {
    let Typed { name, description, content, kind, price, days, uses, language, refs, .. } = Typed::of(Some(product));
    digest(visit, &[&name, &description, &content, &kind, &price, &days, &uses, &language, &refs])
}

async fn page(
    visit: &PageRequest<'_>,
    seller: &SignedIn,
    typed: &Typed,
    fault: Option<&Fault>,
) -> Result<Reply, ApiError> {
    let preview = if typed.preview { Some(preview(visit.delivery, &typed.content).await?) } else { None };
    let mut languages: BTreeSet<String> = visit.delivery.email_languages().iter().map(ToString::to_string).collect();
    languages.extend(Some(typed.language.clone()).filter(|language| !language.is_empty()));
    let values = context! {
        product => typed.value(), preview, languages => languages.into_iter().collect::<Vec<_>>(), platforms => setup::names(visit.delivery),
        files => Value::from(()), ..said(fault, desk(visit, seller, "/desk/products"))
    };
    #[cfg(feature = "files")]
    if let Ok(id) = typed.id.parse().map_err(drop).and_then(|id| ProductId::new(id).map_err(drop))
        && visit.delivery.has_files()
        && let Some(product) = visit.delivery.product(id).await?
    {
        let files = super::file_list::listed(product.files());
        return Ok(visit.page_with_upload("product.html", context! { files, ..values })?.with_pictures());
    }
    Ok(visit.page("product.html", values)?.with_pictures())
}

/// Shows the form of a product as it is stored, with an error.
#[cfg(feature = "files")]
pub(super) async fn page_of(
    visit: &PageRequest<'_>,
    seller: &SignedIn,
    id: ProductId,
    sentence: &str,
) -> Result<Reply, ApiError> {
    let product = visit.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?;
    let seen = shown(visit, &product);
    page(visit, seller, &Typed { seen, ..Typed::of(Some(&product)) }, Some(&Fault::new("files", sentence))).await
}

pub(super) fn archive(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        if let Some(form) = &visit.form {
            let id = form.text("id").parse().ok().and_then(|id| ProductId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?;
            let desk = visit.delivery.desk(&seller.actor);
            let (changed, done) = match form.text("do") {
                "restore" => (desk.restore_product(id).await?, "on_sale"),
                "" => (desk.archive_product(id).await?, "archived"),
                _ => return Err(ApiError::MALFORMED),
            };
            changed.ok_or(ApiError::NOT_FOUND)?;
            return Ok(visit.go_to(&format!("/desk/product?id={id}&done={done}")));
        }
        let id = product_id(&visit, "id")?.ok_or(ApiError::NOT_FOUND)?;
        let product = visit.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?;
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
            ..desk(&visit, &seller, "/desk/products")
        };
        visit.page("confirm.html", values)
    })
}
