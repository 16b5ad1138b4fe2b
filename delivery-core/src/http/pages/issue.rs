//! The form that issues a key by hand.

use std::time::Duration;

use minijinja::context;

use super::form::{self, Form, FormError};
use super::frame::desk;
use super::lists::{choices, product_id};
use super::shown::names;
use super::{ApiError, PageRequest, SignedIn};
use crate::delivery::Error;
use crate::email::Email;
use crate::http::Reply;
use crate::key::KeyId;
use crate::product::ProductId;
use crate::terms::OwnTerms;

/// How long a form can issue its key after the form was opened. The id of the key contains the time at which the form
/// was opened. Lists and figures find keys by the time in the id, and the figures allow for keys that were issued up to
/// an hour after this time.
const LIFETIME: Duration = Duration::from_hours(1);

/// The values of a submitted form.
struct Wanted {
    product: ProductId,
    email: Email,
    terms: OwnTerms,
    sends: bool,
}

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let Some(form) = &request.form else { return page(&request, &seller, None).await };
    let wanted = match read(form) {
        Ok(wanted) => wanted,
        Err(fault) => return page(&request, &seller, Some((form, &fault))).await,
    };
    let id: KeyId = form.text("key").parse().map_err(|_| ApiError::MALFORMED)?;
    if !form::is_digest(&request, &seal(&id.to_string()), form.text("seal")) {
        return Err(ApiError::MALFORMED);
    }
    let is_old = id < KeyId::from_time(request.delivery.now() - LIFETIME);
    if is_old && request.delivery.key(id).await?.is_none() {
        let said = FormError::new("", "This form was open for more than an hour. Check it, and send it again.");
        return page(&request, &seller, Some((form, &said))).await;
    }
    let Wanted { product, email, terms, sends } = wanted;
    let issued = request.delivery.desk(&seller.actor).issue_once(id, product, email, terms, sends).await;
    let said = match issued {
        Ok(Some(_)) if sends => return Ok(request.go_to(&format!("/desk/key?id={id}&done=issued"))),
        Ok(Some(issued)) => {
            return super::key::page(&request, &seller, id, Some(("issued", issued.text.expose()))).await;
        }
        Ok(None) => FormError::new("", "This form has issued a key before. Open it again to issue another one."),
        Err(Error::UnknownProduct) => FormError::new("product_id", "This product is not sold."),
        Err(error) => return Err(error.into()),
    };
    page(&request, &seller, Some((form, &said))).await
}

fn read(form: &Form) -> Result<Wanted, FormError> {
    let product = form.given("product_id").and_then(|id| ProductId::new(id.parse().ok()?).ok());
    let product = product.ok_or_else(|| FormError::new("product_id", "Choose a product."))?;
    let email = form.text("customer_email").trim().parse().map_err(FormError::of("customer_email", "The address"))?;
    let terms = super::product::terms(form)?;
    Ok(Wanted { product, email, terms, sends: form.text("sends") == "yes" })
}

/// Renders the form. The form contains the id of the key that it issues, so that submitting it twice issues only one
/// key.
async fn page(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    sent: Option<(&Form, &FormError)>,
) -> Result<Reply, ApiError> {
    let names = names(request.delivery).await?;
    let text = |name: &str| sent.map_or("", |(form, _)| form.text(name)).to_owned();
    let chosen = match sent {
        Some((form, _)) => form.text("product_id").to_owned(),
        None => {
            product_id(request, "product_id")?.or_else(|| only(&names)).map(|id| id.to_string()).unwrap_or_default()
        }
    };
    let id = request.delivery.new_key_id();
    let values = context! {
        products => choices(&names), chosen, key => id.to_string(), seal => form::digest(request, &seal(&id.to_string())),
        customer_email => text("customer_email"), days => text("days"), uses => text("uses"),
        sends => sent.is_none_or(|(form, _)| form.text("sends") == "yes"),
        ..form::said(sent.map(|(_, fault)| fault), desk(request, seller, "/desk/keys"))
    };
    request.page("issue.html", values)
}

/// Returns the only product of the shop. Returns `None` if the shop has no products or several.
fn only(names: &std::collections::BTreeMap<ProductId, String>) -> Option<ProductId> {
    names.keys().next().copied().filter(|_| names.len() == 1)
}

/// Returns the values for the [digest](form::digest) in the form, which proves that this service has chosen the key's
/// id.
fn seal(id: &str) -> [&str; 2] {
    ["issue", id]
}
