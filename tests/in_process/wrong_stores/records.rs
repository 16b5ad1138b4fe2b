//! A wrong store's records and requests, and its catalog, which is right but forgets who changed it.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::HostRef;
use delivery_core::email::Email;
use delivery_core::key::{KeyId, Refusal};
use delivery_core::ledger::{Action, Edit, Fetch, Fetched, MessageNumber, Refused, RequestId};
use delivery_core::order::Source;
use delivery_core::post::{NewPost, Post, PostId};
use delivery_core::product::{Listing, NewProduct, Product, ProductId, RefName};
use delivery_core::store::{
    AuditEntry, AuditQuery, Backlog, Catalog, CatalogEditor, ExpiryScan, Figures, Files, MessageQuery, MessageState,
    Page, Period, PostQuery, Posts, ProductNames, Records, Requests, StoreError, StoredMessage,
};

use super::fault::Fault::*;
use super::store::Wrong;

impl Wrong {
    pub async fn fetch_wrongly(
        &self,
        id: KeyId,
        mut fetch: Fetch,
    ) -> Result<Option<Result<Fetched, Refused>>, StoreError> {
        let inner = self.open()?;
        match self.fault {
            CountsEveryRequest => {
                let change = delivery_core::key::Change::use_of(fetch.product, fetch.at);
                let used = inner.change(id, change, Vec::new()).await?;
                return Ok(used.map(|used| used.map(|key| Fetched { key, is_repeat: false, counted_at: fetch.at })));
            }
            ForgetsARequestAtItsRepeat => fetch.request = RequestId::of(fetch.at.to_rfc3339().as_bytes()),
            // By the first time that it saw.
            KnowsRequestsForEver => fetch.at = *self.first_time.lock().unwrap().get_or_insert(fetch.at),
            _ => {}
        }
        let counted_at = fetch.at;
        match inner.fetch(id, fetch).await? {
            Some(Err(Refused { refusal: Refusal::OtherRequest, key })) if self.is(ForgetsTheProductOfARequest) => {
                Ok(Some(Ok(Fetched { key, is_repeat: true, counted_at })))
            }
            Some(Ok(Fetched { key, .. })) if self.is(CallsEveryFetchNew) => {
                Ok(Some(Ok(Fetched { key, is_repeat: false, counted_at })))
            }
            fetched => Ok(fetched),
        }
    }

    /// Who changes something, as the store writes it down.
    fn edit(&self, edit: Edit) -> Edit {
        match self.fault {
            ForgetsWhoDidIt => Edit { by: "nobody".parse().unwrap(), ..edit },
            _ => edit,
        }
    }
}

#[async_trait]
impl Requests for Wrong {
    async fn prune_requests(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let before = if self.is(PrunesNewRequests) { before + TimeDelta::days(365) } else { before };
        self.kept()?.prune_requests(before).await
    }
}

#[async_trait]
impl Records for Wrong {
    async fn messages(&self, query: &MessageQuery) -> Result<Page<StoredMessage, MessageNumber>, StoreError> {
        let state = query.state.filter(|_| !self.is(ListsMessagesOfAnyState));
        let period = if self.is(IgnoresThePeriod) { Period::default() } else { query.period };
        self.kept()?.messages(&MessageQuery { state, period, ..query.clone() }).await
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry, i64>, StoreError> {
        let mut query = query.clone();
        match self.fault {
            IgnoresThePeriod => query.period = Period::default(),
            ListsWhatAnybodyDid => query.actor = Option::None,
            ListsEveryAction => query.action = Option::None,
            _ => {}
        }
        let mut page = self.kept()?.audit(&query).await?;
        if self.is(ForgetsWhy) {
            page.items.iter_mut().for_each(|entry| entry.detail = Option::None);
        }
        Ok(page)
    }

    async fn log(&self, action: Action, edit: Edit) -> Result<(), StoreError> {
        self.kept()?.log(action, edit).await
    }

    async fn figures(&self, since: DateTime<Utc>, now: DateTime<Utc>) -> Result<Figures, StoreError> {
        let mut figures = self.kept()?.figures(since, now).await?;
        if self.is(CountsRevocationsAsSales) {
            figures.days.iter_mut().for_each(|day| day.issued += day.revoked);
        }
        if self.is(ForgetsCurrencies) {
            let currency = "EUR".parse().unwrap();
            figures.revenue.iter_mut().for_each(|(_, amount)| amount.currency = currency);
        }
        Ok(figures)
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let mut backlog = self.kept()?.backlog().await?;
        if self.is(CountsWhatWasSentAsFailed) {
            let sent = MessageQuery { state: Some(MessageState::Sent), ..MessageQuery::default() };
            backlog.failed += u64::from(!self.kept()?.messages(&sent).await?.items.is_empty());
        }
        if self.is(CountsWhatWasSentAgain) {
            backlog.unanswered = backlog.failed;
        }
        Ok(backlog)
    }

    async fn notify_expiring(&self, mut scan: ExpiryScan) -> Result<usize, StoreError> {
        match self.fault {
            TellsTooEarly => scan.until += TimeDelta::days(1),
            TellsAfterTheyExpired => scan.now -= TimeDelta::days(1),
            _ => {}
        }
        self.kept()?.notify_expiring(scan).await
    }

    async fn mark_expired(&self, now: DateTime<Utc>, most: usize) -> Result<usize, StoreError> {
        self.kept()?.mark_expired(now, most).await
    }

    async fn erase(&self, email: &Email, pseudonym: &Email, edit: Edit) -> Result<Vec<KeyId>, StoreError> {
        let same = if self.is(ErasesNothing) { email } else { pseudonym };
        self.kept()?.erase(email, same, edit).await
    }
}

/// Traits that a wrong store does right, but for who changes something: that argument is after the semicolon.
macro_rules! right {
    ($store:ident: $($trait:ident {
        $(fn $name:ident($($argument:ident: $type:ty),* $(; $edit:ident)?) -> $answer:ty;)+
        $(as it is: $($own:item)+)?
    })+) => { $(
        #[async_trait]
        impl $trait for $store { $(
            async fn $name(&self, $($argument: $type,)* $($edit: Edit)?) -> Result<$answer, StoreError> {
                self.inner.$name($($argument,)* $(self.edit($edit))?).await
            }
        )+ $($($own)+)? }
    )+ };
}
pub(super) use right;

right! {
    Wrong:
    ProductNames {
        fn product_named(source: &Source, name: &RefName) -> Option<ProductId>;
    }
    Catalog {
        fn product(id: ProductId) -> Option<Arc<Product>>;
        fn products() -> Arc<Vec<Listing>>;
    }
    CatalogEditor {
        fn add_product(product: NewProduct; edit) -> Arc<Product>;
        fn product_called(host_ref: &HostRef) -> Option<Arc<Product>>;
        fn archived_products() -> Vec<Listing>;
        fn update_product(id: ProductId, product: NewProduct, was: Option<&NewProduct>; edit) -> Option<Arc<Product>>;
        fn set_archived(id: ProductId, archived: bool; edit) -> Option<Arc<Product>>;
        as it is:
        fn files(&self) -> Option<&dyn Files> {
            Some(self)
        }
    }
    Posts {
        fn posts(query: &PostQuery) -> Arc<Vec<Post>>;
        fn add_post(post: NewPost; edit) -> Post;
        fn post(id: PostId) -> Option<Post>;
        fn update_post(id: PostId, post: NewPost, was: Option<&NewPost>; edit) -> Option<Post>;
        fn delete_post(id: PostId; edit) -> bool;
    }
}
