//! Signing in and out.
//!
//! If a form of the desk is submitted after the session has ended, it can be *carried on*: the reply is the sign-in
//! form with the submitted fields as hidden fields, and the form is handled once the seller has signed in.

use ::http::StatusCode;
use ::http::header::CONTENT_LENGTH;
use chrono::TimeDelta;
use minijinja::context;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::form::Form;
use super::session::{Cookie, SESSION, SESSION_COOKIE};
use super::{ApiError, Page, PageRequest, SignedIn};
use crate::http::body::BodyRule;
use crate::http::error::Answering;
use crate::http::limits::{admit, client};
use crate::http::{Reply, query};
use crate::limit::Policy;
use crate::store::{SignIn, SignInId};

/// How long the sign-in form can be submitted after it was loaded, in seconds: 12 hours.
const FORM: i64 = 12 * 60 * 60;

/// The fields of a submitted form that do not become hidden fields of the sign-in form: the sign-in form's own fields,
/// and `secret`, because no page shows a secret.
const LEFT_OUT: [&str; 5] = ["csrf", "token", "next", "secret", "lost_secret"];

/// The maximum length, in bytes, of a form that is carried on (repeated in the sign-in form) for a browser without a
/// session cookie. Anybody can send such a form, and escaping its fields as HTML can make the reply six times as long.
const SHORT: usize = 16 << 10;

/// The handler of a page for a signed-in seller.
type Show = for<'c> fn(PageRequest<'c>, SignedIn) -> Answering<'c>;

pub(super) async fn sign_in(request: PageRequest<'_>) -> Result<Reply, ApiError> {
    if request.is_form() { submitted(&request).await } else { asked(&request).await }
}

async fn asked(request: &PageRequest<'_>) -> Result<Reply, ApiError> {
    let next = query::parameter(request.call, "next").map_err(|_| ApiError::MALFORMED)?;
    let next = next.as_deref().unwrap_or_default();
    if request.cookie(Cookie::Session).is_some() && matches!(SignedIn::find(request).await, Ok(Some(_))) {
        return Ok(request.go_to(wanted(request, next).unwrap_or("/desk")));
    }
    form(request, next, None)
}

/// Renders the sign-in form. If the request submits a form of the desk, most fields of that form become hidden fields
/// of the sign-in form: see [`carried`].
fn form(request: &PageRequest<'_>, next: &str, fault: Option<&str>) -> Result<Reply, ApiError> {
    // Reuse the secret in the browser's cookie, so that a sign-in form in another tab stays valid. The cookie is set
    // again, so that it lasts 12 hours from now.
    let (secret, text) = match request.cookie(Cookie::Form) {
        Some(secret) => (secret, request.cookie_text(Cookie::Form, &secret)),
        None => request.new_secret(Cookie::Form),
    };
    let carried: Vec<_> = request.form.iter().flat_map(carried).cloned().collect();
    let is_given = |name| request.form.as_ref().is_some_and(|form| form.given(name).is_some());
    let lost_secret = is_given("secret") || is_given("lost_secret");
    let values = context! {
        csrf => request.csrf(&secret).text(), fault, next => wanted(request, next), carried, lost_secret, path => request.path
    };
    let page = request.page("sign_in.html", values)?;
    Ok(page.cookie(&request.set_cookie(Cookie::Form, &text, FORM)))
}

/// Returns the fields of a submitted form that become hidden fields of the sign-in form.
fn carried(form: &Form) -> impl Iterator<Item = &(String, String)> {
    form.fields().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()))
}

/// Returns `next` if it is the path of a page of the desk, with or without a query. Returns `None` for any other
/// address, so that a crafted link cannot redirect the seller elsewhere.
fn wanted<'t>(request: &PageRequest<'_>, next: &'t str) -> Option<&'t str> {
    let path = next.split('?').next().unwrap_or_default();
    let is_page = Page::ALL.iter().any(|page| page.row().path == path && page.is_served_by(request.delivery));
    Some(next).filter(|next| is_page && path.starts_with("/desk") && next.bytes().all(|byte| byte.is_ascii_graphic()))
}

async fn submitted(request: &PageRequest<'_>) -> Result<Reply, ApiError> {
    let form_sent = request.form.as_ref().ok_or(ApiError::MALFORMED)?;
    let next = form_sent.text("next");
    let Some((_, cookie)) = by_token(request, form_sent).await? else { return again(request, next) };
    Ok(request.go_to(wanted(request, next).unwrap_or("/desk")).cookie(&cookie))
}

fn again(request: &PageRequest<'_>, next: &str) -> Result<Reply, ApiError> {
    Ok(form(request, next, Some("This token is not right."))?.with_code(StatusCode::UNAUTHORIZED))
}

/// Returns whether a form of the desk is carried on if its sender is not signed in: the sign-in form then repeats its
/// fields. This depends on the cookies of the browser:
///
/// - With a session cookie, which the browser keeps for a week after signing in, every form is carried on.
/// - With only the cookie of a sign-in form, which anybody can get, a form of at most [`SHORT`] bytes is carried on.
///
/// No form is carried on if the host application signs sellers in.
pub(super) fn is_carried_on(request: &PageRequest<'_>, rule: BodyRule) -> bool {
    let has = |cookie| request.cookie(cookie).is_some();
    let length = request.call.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let is_short = matches!(rule, BodyRule::Read { limit, .. } if length.unwrap_or(limit) <= SHORT);
    request.delivery.inner.tokens.is_some() && (has(Cookie::Session) || has(Cookie::Form) && is_short)
}

/// Answers a form of the desk whose session has ended. If the form contains no admin token, the reply is a sign-in form
/// with the form's fields, so that no input except secrets is lost. When the seller submits that form with the token,
/// this function signs the seller in and handles the original form.
pub(super) async fn resumed(request: PageRequest<'_>, show: Show) -> Result<Reply, ApiError> {
    let form_sent = request.form.as_ref().ok_or(ApiError::MALFORMED)?;
    request.check_origin()?;
    if carried(form_sent).next().is_none() {
        return Err(SignedIn::is_missing(&request));
    }
    if form_sent.given("token").is_none() {
        return form(&request, "", None);
    }
    let signed_in = match by_token(&request, form_sent).await {
        Err(ApiError::Forged) => {
            let late = form(&request, "", Some("The form was open for too long. Sign in once more."))?;
            return Ok(late.with_code(StatusCode::FORBIDDEN));
        }
        signed_in => signed_in?,
    };
    let Some((seller, cookie)) = signed_in else { return again(&request, "") };
    let seller = seller.counting(request.delivery).await;
    // Opening a product as a buyer sets a cookie of its own, but a reply can set only one cookie. In this case,
    // redirect to the page of the key, where the seller can open the product again.
    let back = request.go_to(&format!("/desk/key?id={}", form_sent.text("id")));
    let reply = show(request, seller).await.unwrap_or_else(Reply::from);
    Ok(if reply.sets_cookie() { back } else { reply }.cookie(&cookie))
}

/// Answers a signed-in seller's form that has a wrong CSRF token. Either the form was loaded before the seller signed
/// in again, or it is forged. As in [`resumed`], the reply is a sign-in form, and the seller's form is handled only if
/// the sender knows the admin token.
pub(super) async fn proved_again(request: PageRequest<'_>, show: Show) -> Result<Reply, ApiError> {
    let form_sent = request.form.as_ref().ok_or(ApiError::MALFORMED)?;
    let has_token = form_sent.given("token").is_some();
    if request.delivery.inner.tokens.is_none() || carried(form_sent).next().is_none() {
        return Err(ApiError::Forged);
    }
    let reply = resumed(request, show).await?;
    Ok(if has_token { reply } else { reply.with_code(StatusCode::FORBIDDEN) })
}

/// Signs in with the admin token in a form. Returns the seller and the `Set-Cookie` value of the session. Returns
/// `None` if the token is wrong.
async fn by_token(request: &PageRequest<'_>, form_sent: &Form) -> Result<Option<(SignedIn, String)>, ApiError> {
    let delivery = request.delivery;
    request.check_origin()?;
    let secret = request.cookie(Cookie::Form).ok_or(ApiError::Forged)?;
    request.csrf(&secret).check(form_sent.text("csrf"))?;
    // Count the attempt only after the CSRF check. Another site can make the seller's browser send forged forms, and
    // they must not use up the seller's quota.
    admit(delivery, Policy::Admin, client(delivery, request.call)).await?;
    let (Some(tokens), Some(sign_ins)) = (&delivery.inner.tokens, delivery.inner.ledger.office()) else {
        return Err(ApiError::NOT_FOUND);
    };
    let presented: [u8; 32] = Sha256::digest(form_sent.text("token").trim()).into();
    // Compare all tokens, so that the time taken does not reveal which one matched.
    let mut found = None;
    for (actor, digest) in tokens.each() {
        if bool::from(digest.ct_eq(&presented)) {
            found = Some((actor.clone(), request.mac("desk token", digest)));
        }
    }
    let Some((actor, token)) = found else {
        delivery.inner.note_wrong_sign_in();
        return Ok(None);
    };
    // End the previous session of this browser, if it has one.
    if let Some(before) = request.cookie(Cookie::Session) {
        for id in request.session_ids(&before) {
            sign_ins.sign_out(id).await?;
        }
    }
    let (secret, text) = request.new_secret(Cookie::Session);
    let (id, csrf) = (SignInId::from_bytes(request.mac("desk session", &secret)), request.csrf(&secret));
    let expires_at = crate::clock::whole_seconds(delivery.inner.clock.now() + TimeDelta::seconds(SESSION));
    sign_ins.sign_in(SignIn { id, actor: actor.clone(), token, expires_at }).await?;
    let cookie = request.set_cookie(Cookie::Session, &text, SESSION_COOKIE);
    Ok(Some((SignedIn::new(actor, Some(id), csrf), cookie)))
}

pub(super) async fn sign_out(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    if !request.is_form() {
        return Ok(request.go_to("/desk"));
    }
    if let (Some(id), Some(sign_ins)) = (seller.session, request.delivery.inner.ledger.office()) {
        sign_ins.sign_out(id).await?;
    }
    Ok(request.go_to("/desk/sign-in").cookie(&request.set_cookie(Cookie::Session, "", 0)))
}
