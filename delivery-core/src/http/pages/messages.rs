//! The list of messages in the outbox, and sending failed ones again.

use minijinja::context;

use super::shown::{PAGE, desk, links, message, parameter};
use super::{Answering, ApiError, PageRequest, SignedIn};
use crate::ledger::MessageNumber;
use crate::store::{MessageQuery, MessageState};

const STATES: &[(&str, &str)] = &[("", "All"), ("queued", "Waiting"), ("sent", "Sent"), ("failed", "Failed")];

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let seller_desk = visit.delivery.desk(&seller.actor);
        if let Some(form) = &visit.form {
            let number = form.text("id").parse().map_err(|_| ApiError::MALFORMED)?;
            let is_retried = seller_desk.retry_message(MessageNumber::new(number)).await?;
            let done = if is_retried { "&done=retried" } else { "&done=nothing" };
            return Ok(visit.go_to(&format!("/desk/messages?state=failed{done}")));
        }
        let state: Option<MessageState> = parameter(&visit, "state")?;
        let before = parameter(&visit, "before")?.map(MessageNumber::new);
        let page = seller_desk.messages(&MessageQuery { state, key: None, before, limit: PAGE }).await?;
        let reaches_nobody = visit.delivery.inner.outbox.mailer.reaches_nobody();
        let next = page.next.map(|next| next.get().to_string());
        let current = state.map_or("", MessageState::as_str);
        visit.page(
            "messages.html",
            context! {
                messages => page.items.iter().map(|it| message(it, reaches_nobody)).collect::<Vec<_>>(),
                states => STATES.to_vec(),
                current,
                links => links(&visit, "/desk/messages", &[("state", current)], next, &[("messages", "Download as CSV")]),
                ..desk(&visit, &seller, "/desk/messages")
            },
        )
    })
}
