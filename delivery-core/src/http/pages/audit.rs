//! The page of the audit log.

use minijinja::context;

use super::shown::{PAGE, desk, entry, links, parameter};
use super::{Answering, PageRequest, SignedIn};
use crate::store::AuditQuery;

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let query = AuditQuery { key: None, before: parameter(&visit, "before")?, limit: PAGE };
        let page = visit.delivery.desk(&seller.actor).audit(&query).await?;
        visit.page(
            "audit.html",
            context! {
                entries => page.items.iter().map(entry).collect::<Vec<_>>(),
                links => links(&visit, "/desk/audit", &[], page.next.map(|next| next.to_string()), &[("events", "Download as CSV")]),
                ..desk(&visit, &seller, "/desk/audit")
            },
        )
    })
}
