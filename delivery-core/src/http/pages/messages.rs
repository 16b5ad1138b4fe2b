//! The list of messages in the outbox, and sending failed ones again.

use minijinja::{Value, context};

use super::frame::desk;
use super::lists::{PAGE, chosen, links, parameter};
use super::shown::message;
use super::{ApiError, PageRequest, SignedIn};
use crate::http::parameter::{BEFORE, SINCE, STATE, UNTIL};
use crate::http::{Reply, filters};
use crate::ledger::MessageNumber;
use crate::store::MessageQuery;

const STATES: &[(&str, &str)] = &[("queued", "waiting"), ("sent", "sent"), ("failed", "failed")];

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let seller_desk = request.delivery.desk(&seller.actor);
    if let Some(form) = &request.form {
        let number = form.text("id").parse().map_err(|_| ApiError::MALFORMED)?;
        let is_retried = seller_desk.retry_message(MessageNumber::new(number)).await?;
        let done = if is_retried { "&done=retried" } else { "&done=nothing" };
        return Ok(request.go_to(&format!("/desk/messages?state=failed{done}")));
    }
    let chosen = chosen(&request, &[STATE.name, SINCE.name, UNTIL.name])?;
    let before = parameter(&request, BEFORE.name)?.map(MessageNumber::new);
    let query = MessageQuery { before, limit: PAGE, ..filters::messages(request.call)? };
    let page = seller_desk.messages(&query).await?;
    let reaches_nobody = request.delivery.inner.outbox.mailer.reaches_nobody();
    let next = page.next.map(|next| next.get().to_string());
    request.page(
        "messages.html",
        context! {
            messages => page.items.iter().map(|it| message(it, reaches_nobody)).collect::<Vec<_>>(),
            states => STATES.to_vec(),
            links => links(&request, "/desk/messages", &chosen, next, &[("messages", "Download as CSV")]),
            filters => Value::from(chosen),
            ..desk(&request, &seller, "/desk/messages")
        },
    )
}
