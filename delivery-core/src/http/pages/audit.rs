//! The page of the audit log.

use minijinja::{Value, context};

use super::frame::desk;
use super::lists::{PAGE, chosen, links, options, parameter};
use super::shown::entry;
use super::{ApiError, PageRequest, SignedIn};
use crate::http::parameter::{ACTION, ACTOR, BEFORE, SINCE, UNTIL};
use crate::http::{Reply, filters};
use crate::key::Actor;
use crate::ledger::Action;
use crate::store::AuditQuery;

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let chosen = chosen(&request, &[ACTOR.name, ACTION.name, SINCE.name, UNTIL.name])?;
    let query = AuditQuery { before: parameter(&request, BEFORE.name)?, limit: PAGE, ..filters::audit(request.call)? };
    let page = request.delivery.desk(&seller.actor).audit(&query).await?;
    let next = page.next.map(|next| next.to_string());
    let platforms = request.delivery.inner.platforms.names().map(Actor::platform);
    let actors = [Actor::admin(), Actor::system()].into_iter().chain(platforms);
    request.page(
        "audit.html",
        context! {
            entries => page.items.iter().map(entry).collect::<Vec<_>>(),
            actors => actors.map(|actor| actor.to_string()).collect::<Vec<_>>(),
            actions => options(Action::ALL.iter().map(|action| action.as_str())),
            links => links(&request, "/desk/audit", &chosen, next, &[("events", "Download as CSV")]),
            filters => Value::from(chosen),
            ..desk(&request, &seller, "/desk/audit")
        },
    )
}
