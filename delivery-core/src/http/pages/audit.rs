//! The page of the audit log.

use minijinja::context;

use super::shown::{PAGE, desk, entry, next, parameter};
use super::{Answering, PageRequest, SignedIn, base};
use crate::store::AuditQuery;

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let query = AuditQuery { key: None, before: parameter(&visit, "before")?, limit: PAGE };
        let page = visit.delivery.desk(&seller.actor).audit(&query).await?;
        let path = format!("{}/desk/audit", base(visit.delivery));
        visit.page(
            "audit.html",
            context! {
                entries => page.items.iter().map(entry).collect::<Vec<_>>(),
                next => next(&path, &[], page.next.map(|next| next.to_string())),
                ..desk(&visit, &seller, "/desk/audit")
            },
        )
    })
}
