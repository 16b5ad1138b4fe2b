//! Products: listing, adding, editing, and stopping to sell them.

use minijinja::{Value, context};

use super::form::Form;
use super::shown::{desk, product_id};
use super::{Answering, SignedIn, Trouble, Visit};
use crate::http::Reply;
use crate::look::rendered;
use crate::product::{NewProduct, Product, ProductId, Refs};
use crate::store::StoreError;
use crate::terms::{OwnTerms, UseLimit, Validity};
use crate::text::Invalid;

pub(super) fn list(visit: Visit<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let listed = visit.delivery.products().await?;
        let products: Vec<Value> = listed
            .iter()
            .map(|it| context! { id => it.id.get(), name => it.name.clone(), kind => it.kind.clone(), price => it.price.to_string() })
            .collect();
        visit.page("products.html", context! { products, ..desk(&visit, &seller, "/desk/products") })
    })
}

pub(super) fn show(visit: Visit<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        if let Some(form) = &visit.form {
            return submitted(&visit, &seller, form).await;
        }
        let product = match product_id(&visit, "id")? {
            Some(id) => Some(visit.delivery.product(id).await?.ok_or(Trouble::NotFound)?),
            None => None,
        };
        page(&visit, &seller, &Typed::of(product.as_deref()), None)
    })
}

/// What stands in the form.
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
            price: product.price().to_string(),
            days: terms.validity.map(|validity| validity.as_days().to_string()).unwrap_or_default(),
            uses: terms.limit.map(|limit| limit.as_count().to_string()).unwrap_or_default(),
            language: product.language().map(ToString::to_string).unwrap_or_default(),
            refs: refs.collect(),
            is_archived: product.is_archived(),
            preview: false,
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
            refs: text("refs"),
            is_archived: false,
            preview: form.text("do") == "preview",
        }
    }

    fn value(&self) -> Value {
        context! {
            id => self.id.clone(), name => self.name.clone(), description => self.description.clone(),
            content => self.content.clone(), kind => self.kind.clone(), price => self.price.clone(), days => self.days.clone(),
            uses => self.uses.clone(), language => self.language.clone(), refs => self.refs.clone(),
            is_archived => self.is_archived,
        }
    }

    /// The product that it describes; what the host calls it stays.
    fn facts(&self, was: Option<&Product>) -> Result<NewProduct, String> {
        let said = |field: &'static str| move |expected: Invalid| format!("{field} {expected}.");
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let number = |field: &'static str, text: &str| {
            let number = given(text).map(|text| text.parse::<i64>().map_err(|_| format!("{field} must be a number.")));
            number.transpose()
        };
        let mut facts = NewProduct::new(self.name.trim()).map_err(said("The name"))?;
        facts = facts.content(self.content.as_str()).map_err(said("The content"))?;
        facts = facts.description(self.description.trim()).map_err(said("The description"))?;
        if let Some(kind) = given(&self.kind) {
            facts = facts.kind(kind).map_err(said("The type"))?;
        }
        if let Some(price) = given(&self.price) {
            facts = facts.price(price.parse().map_err(said("The price"))?);
        }
        let validity =
            number("The days", &self.days)?.map(Validity::from_days).transpose().map_err(said("The days"))?;
        let limit = number("The uses", &self.uses)?.map(UseLimit::from_count).transpose().map_err(said("The uses"))?;
        facts = facts.terms(OwnTerms { validity, limit }).refs(self.named()?);
        if let Some(language) = given(&self.language) {
            facts = facts.language(language.parse().map_err(said("The language"))?);
        }
        if let Some(host_ref) = was.and_then(Product::host_ref) {
            facts = facts.host_ref(host_ref.clone());
        }
        Ok(facts)
    }

    /// What platforms call it: a platform and a name in each line.
    fn named(&self) -> Result<Refs, String> {
        let expected = "Each line of what platforms call it must be a platform and a name, such as: stripe plink_1Abc";
        let lines = self.refs.lines().map(str::trim).filter(|line| !line.is_empty());
        let pair = |line: &str| {
            let (source, name) = line.split_once(char::is_whitespace)?;
            Some((source.parse().ok()?, name.trim().parse().ok()?))
        };
        let pairs: Option<Vec<_>> = lines.map(pair).collect();
        let refs = Refs::new(pairs.ok_or(expected)?);
        refs.map_err(|expected| format!("What platforms call it {expected}."))
    }
}

async fn submitted(visit: &Visit<'_>, seller: &SignedIn, form: &Form) -> Result<Reply, Trouble> {
    let mut typed = Typed::read(form);
    let id = match form.given("id") {
        Some(id) => Some(id.parse().ok().and_then(|id| ProductId::new(id).ok()).ok_or(Trouble::NotFound)?),
        None => None,
    };
    let was = match id {
        Some(id) => Some(visit.delivery.product(id).await?.ok_or(Trouble::NotFound)?),
        None => None,
    };
    typed.is_archived = was.as_ref().is_some_and(|product| product.is_archived());
    let facts = match typed.facts(was.as_deref()) {
        Ok(facts) => facts,
        Err(fault) => return page(visit, seller, &typed, Some(&fault)),
    };
    if typed.preview {
        return page(visit, seller, &typed, None);
    }
    let seller_desk = visit.delivery.desk(&seller.actor);
    let saved = match id {
        Some(id) => seller_desk.update_product(id, facts).await.map(|updated| updated.map(|product| product.id())),
        None => add(visit, seller, typed.name.trim(), facts).await.map(Some),
    };
    match saved {
        Ok(Some(id)) => Ok(visit.go_to(&format!("/desk/product?id={id}&done=saved"))),
        Ok(None) => Err(Trouble::NotFound),
        Err(StoreError::Refused { .. }) => {
            page(visit, seller, &typed, Some("Another product has one of the names that platforms call it."))
        }
        Err(error) => Err(error.into()),
    }
}

/// Adds a product, unless the form was sent before: one that is alike in everything is the one meant.
async fn add(visit: &Visit<'_>, seller: &SignedIn, name: &str, facts: NewProduct) -> Result<ProductId, StoreError> {
    let delivery = visit.delivery;
    let _turn = delivery.inner.adding.lock().await;
    for listed in delivery.products().await?.iter().filter(|listed| listed.name == name) {
        if delivery.product(listed.id).await?.is_some_and(|product| *product.facts() == facts) {
            return Ok(listed.id);
        }
    }
    delivery.desk(&seller.actor).add_product(facts).await.map(|product| product.id())
}

fn page(visit: &Visit<'_>, seller: &SignedIn, typed: &Typed, fault: Option<&str>) -> Result<Reply, Trouble> {
    let preview = typed.preview.then(|| Value::from_safe_string(rendered(&typed.content)));
    visit.page(
        "product.html",
        context! { product => typed.value(), preview, fault, ..desk(visit, seller, "/desk/products") },
    )
}

pub(super) fn archive(visit: Visit<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        if let Some(form) = &visit.form {
            let id = form.text("id").parse().ok().and_then(|id| ProductId::new(id).ok()).ok_or(Trouble::NotFound)?;
            let archived = visit.delivery.desk(&seller.actor).archive_product(id).await?;
            archived.ok_or(Trouble::NotFound)?;
            return Ok(visit.go_to(&format!("/desk/product?id={id}&done=archived")));
        }
        let id = product_id(&visit, "id")?.ok_or(Trouble::NotFound)?;
        let product = visit.delivery.product(id).await?.ok_or(Trouble::NotFound)?;
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
