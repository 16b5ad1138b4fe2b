//! Signing in and out.

use chrono::TimeDelta;
use minijinja::context;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::session::{Cookie, SESSION, check_csrf};
use super::{Answering, ApiError, PageRequest, SignedIn};
use crate::http::Reply;
use crate::http::limits::{admit, client};
use crate::limit::Policy;
use crate::store::SignIn;

/// How long the sign-in form can be submitted after it was loaded, in seconds: one hour.
const FORM: i64 = 60 * 60;

pub(super) fn sign_in(visit: PageRequest<'_>) -> Answering<'_> {
    Box::pin(async move { if visit.is_form() { submitted(&visit).await } else { asked(&visit).await } })
}

async fn asked(visit: &PageRequest<'_>) -> Result<Reply, ApiError> {
    if visit.cookie(Cookie::Session).is_some() && SignedIn::of(visit).await.is_ok() {
        return Ok(visit.go_to("/desk"));
    }
    form(visit, None)
}

fn form(visit: &PageRequest<'_>, fault: Option<&str>) -> Result<Reply, ApiError> {
    // Reuse the secret in the browser's cookie, so that a sign-in form in another tab stays valid. The cookie is set
    // again, so that it lasts an hour from now.
    let (secret, text) = match visit.cookie(Cookie::Form) {
        Some(secret) => (secret, visit.cookie_text(Cookie::Form, &secret)),
        None => visit.new_secret(Cookie::Form),
    };
    let page = visit.page("sign_in.html", context! { csrf => visit.csrf(&secret), fault })?;
    Ok(page.cookie(&visit.set_cookie(Cookie::Form, &text, FORM)))
}

async fn submitted(visit: &PageRequest<'_>) -> Result<Reply, ApiError> {
    let (delivery, Some(form_sent)) = (visit.delivery, &visit.form) else { return Err(ApiError::MALFORMED) };
    visit.check_origin()?;
    let secret = visit.cookie(Cookie::Form).ok_or(ApiError::Forged)?;
    check_csrf(form_sent, &visit.csrf(&secret))?;
    // Count the attempt only after the CSRF check. Another site can make the seller's browser send forged forms, and
    // they must not use up the seller's quota.
    admit(delivery, Policy::Admin, client(delivery, visit.call)).await?;
    let (Some(tokens), Some(sign_ins)) = (&delivery.inner.tokens, delivery.inner.ledger.office()) else {
        return Err(ApiError::NOT_FOUND);
    };
    let presented: [u8; 32] = Sha256::digest(form_sent.text("token").trim()).into();
    // Compare all tokens, so that the time taken does not reveal which one matched.
    let mut found = None;
    for (actor, digest) in tokens.each() {
        if bool::from(digest.ct_eq(&presented)) {
            found = Some((actor.clone(), visit.mac("desk token", digest)));
        }
    }
    let Some((actor, token)) = found else {
        delivery.inner.note_wrong_sign_in();
        let page = form(visit, Some("This token is not right."))?;
        return Ok(page.with_code(::http::StatusCode::UNAUTHORIZED));
    };
    // End the previous session of this browser, if it has one.
    if let Some(before) = visit.cookie(Cookie::Session) {
        sign_ins.sign_out(visit.session_id(&before)).await?;
    }
    let (secret, text) = visit.new_secret(Cookie::Session);
    let expires_at = crate::clock::whole_seconds(delivery.inner.clock.now() + TimeDelta::seconds(SESSION));
    sign_ins.sign_in(SignIn { id: visit.session_id(&secret), actor, token, expires_at }).await?;
    Ok(visit.go_to("/desk").cookie(&visit.set_cookie(Cookie::Session, &text, SESSION)))
}

#[expect(clippy::needless_pass_by_value, reason = "as every page")]
pub(super) fn sign_out(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        if !visit.is_form() {
            return Ok(visit.go_to("/desk"));
        }
        if let (Some(id), Some(sign_ins)) = (seller.session, visit.delivery.inner.ledger.office()) {
            sign_ins.sign_out(id).await?;
        }
        Ok(visit.go_to("/desk/sign-in").cookie(&visit.set_cookie(Cookie::Session, "", 0)))
    })
}
