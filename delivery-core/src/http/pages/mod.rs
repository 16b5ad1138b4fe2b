//! The seller's desk and the buyer's page: HTML pages over the same operations as the API.
//!
//! Each [`Page`] has a row in the endpoint table, like an endpoint of the API, and goes through the same pipeline. All
//! pages work without JavaScript. Some have a small script, whose hash the content security policy allows.
//!
//! The pages are a part of `http`, not a module of their own, because they and `http` would import each other: the rows
//! of the endpoint table refer to [`Page`] and [`PageHandler`], and the pages use the calls, replies and limits of
//! `http`. What the pages look like is in [`look`](crate::look), which imports nothing from here.

mod audit;
mod buyer;
mod change;
mod email;
mod events;
mod export;
#[cfg(feature = "files")]
mod file_list;
#[cfg(feature = "files")]
mod files;
mod form;
mod frame;
pub(super) mod handler;
mod issue;
mod key;
mod key_form;
mod keys;
mod languages;
mod lists;
mod messages;
mod opened;
mod opening;
mod overview;
mod post;
mod product;
mod references;
mod rendering;
mod session;
mod setup;
mod shown;
mod sign_in;
mod unknown;

use std::pin::Pin;
#[cfg(feature = "files")]
use std::pin::pin;
use std::time::Duration;

use ::http::{HeaderValue, Method, header};
use bytes::Bytes;
use futures_util::Stream;
#[cfg(feature = "files")]
use futures_util::StreamExt;

use self::form::Form;
use self::handler::PageHandler;
pub(super) use self::rendering::error_page;
use self::session::{PageRequest, SignedIn, base, check_csrf};
pub(super) use self::unknown::unknown;
use super::body::{BodyRule, Keep, read};
use super::error::{Answering, ApiError};
use super::query::check_text;
use super::row::{Docs, Handler, Row, Verb};
use super::{Call, Reply, names};
use crate::delivery::Delivery;

/// A page of the seller's desk, or a page for buyers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Page {
    /// Figures of a week to a year, and what needs the seller's attention.
    Overview,
    /// The sign-in form of the desk.
    SignIn,
    /// Ends the seller's session.
    SignOut,
    /// The list of keys, with search and filters.
    Keys,
    /// A key with its history.
    Key,
    /// The form that issues a key by hand.
    Issue,
    /// The confirmation form for a change of a key.
    ChangeKey,
    /// The list of products.
    Products,
    /// The form that adds or edits a product.
    Product,
    /// The confirmation form that stops selling a product.
    ArchiveProduct,
    /// Receives the files that the seller uploads for a product.
    #[cfg(feature = "files")]
    PutFiles,
    /// The confirmation form that deletes a file of a product.
    #[cfg(feature = "files")]
    DeleteFile,
    /// The list of posts.
    Posts,
    /// The form that adds or edits a post.
    Post,
    /// The confirmation form that deletes a post.
    DeletePost,
    /// The list of messages in the outbox.
    Messages,
    /// The list of events that commerce platforms have reported.
    Events,
    /// An event of a platform, with a form to apply it again.
    Event,
    /// The audit log.
    Audit,
    /// A list as a CSV table.
    Export,
    /// The webhook addresses to configure at the platforms, and a form that sends a test e-mail.
    Setup,
    /// A preview of the e-mails to buyers, for an example key.
    Email,
    /// The form that erases a customer.
    Erase,
    /// The stylesheet of all pages.
    Style,
    /// The icon of all pages.
    Icon,
    /// The page where a buyer enters a key and opens the product.
    Buyer,
    /// Shows a product that a buyer has opened.
    Opened,
    /// The form where a buyer requests lost keys by e-mail.
    Lost,
}

/// The limits on the body of a form that has only short fields: at most 16 KiB, within 10 seconds.
const FIELDS: BodyRule = BodyRule::Form { limit: 16 << 10, deadline: Duration::from_secs(10) };
/// The limits on the body of a form with the content of a product or a post: at most 4 MiB, within 30 seconds. The
/// content has at most 1 MiB, but browsers percent-encode it, and this can triple its size.
const CONTENT: BodyRule = BodyRule::Form { limit: 4 << 20, deadline: Duration::from_secs(30) };

/// The body rule of the form that uploads files. The page's handler reads the body while it arrives.
#[cfg(feature = "files")]
const STREAMED: BodyRule = BodyRule::Streamed;

/// The values that are the same in the table rows of all pages. [`Page::row`] replaces the path, the body rule and the
/// handler.
const PAGE: Row = Row {
    path: "",
    verb: Verb::GetOrPost,
    body: BodyRule::None,
    limit: None,
    cross_origin: false,
    handler: Handler::Page(PageHandler::Public(|_| Box::pin(async { Err(ApiError::NOT_FOUND) }))),
    codes: &[],
    openapi: Docs { tag: "", id: "", summary: "", description: "", parameters: &[], body: None, success: None },
};

macro_rules! pages {
    ($($(#[$cfg:meta])* $page:ident, $path:literal, $body:ident, $shows:expr;)+) => {
        impl Page {
            /// Every page.
            pub const ALL: &'static [Self] = &[$($(#[$cfg])* Self::$page),+];

            pub(super) fn row(self) -> &'static Row {
                match self {
                    $($(#[$cfg])* Self::$page => {
                        static ROW: Row = Row { path: $path, body: $body, handler: Handler::Page($shows), ..PAGE };
                        &ROW
                    })+
                }
            }
        }
    };
}

pages! {
    Overview, "/desk", FIELDS, PageHandler::Seller(overview::show);
    SignIn, "/desk/sign-in", FIELDS, PageHandler::Public(sign_in::sign_in);
    SignOut, "/desk/sign-out", FIELDS, PageHandler::Seller(sign_in::sign_out);
    Keys, "/desk/keys", FIELDS, PageHandler::Seller(keys::show);
    Key, "/desk/key", FIELDS, PageHandler::Seller(key::show);
    Issue, "/desk/issue", FIELDS, PageHandler::Seller(issue::show);
    ChangeKey, "/desk/key/change", FIELDS, PageHandler::Seller(change::show);
    Products, "/desk/products", FIELDS, PageHandler::Seller(product::list);
    Product, "/desk/product", CONTENT, PageHandler::Seller(product::show);
    ArchiveProduct, "/desk/product/archive", FIELDS, PageHandler::Seller(product::archive);
    #[cfg(feature = "files")] PutFiles, "/desk/product/files", STREAMED, PageHandler::Upload(files::upload);
    #[cfg(feature = "files")] DeleteFile, "/desk/product/file/delete", FIELDS, PageHandler::Seller(files::delete);
    Posts, "/desk/posts", FIELDS, PageHandler::Seller(post::list);
    Post, "/desk/post", CONTENT, PageHandler::Seller(post::show);
    DeletePost, "/desk/post/delete", FIELDS, PageHandler::Seller(post::delete);
    Messages, "/desk/messages", FIELDS, PageHandler::Seller(messages::show);
    Events, "/desk/events", FIELDS, PageHandler::Seller(events::list);
    Event, "/desk/event", FIELDS, PageHandler::Seller(events::show);
    Audit, "/desk/audit", FIELDS, PageHandler::Seller(audit::show);
    Export, "/desk/export", FIELDS, PageHandler::Seller(export::show);
    Setup, "/desk/setup", FIELDS, PageHandler::Seller(setup::show);
    Email, "/desk/email", FIELDS, PageHandler::Seller(email::show);
    Erase, "/desk/erase", FIELDS, PageHandler::Seller(setup::erase);
    Style, "/key/style.css", FIELDS, PageHandler::Public(style);
    Icon, "/key/icon.svg", FIELDS, PageHandler::Public(icon);
    Buyer, "/key", FIELDS, PageHandler::Public(buyer::show);
    Opened, "/key/opened", FIELDS, PageHandler::Public(opened::show);
    Lost, "/key/lost", FIELDS, PageHandler::Public(buyer::lost);
}

impl Page {
    /// Returns whether the service is configured for the page. No page is served without a [`Look`](crate::look::Look),
    /// which can also disable the desk or the buyer's pages. The pages of the desk need a `Seller`, which decides who
    /// is a seller. If sellers sign in with tokens, the desk also needs a store with an `Office`, which stores the
    /// sessions. The page for lost keys needs such a store too. The pages for files need a service in which products
    /// can have files.
    pub(super) fn is_served_by(self, delivery: &Delivery) -> bool {
        let inner = &delivery.inner;
        let can_sign_in = inner.tokens.is_none() || inner.ledger.office().is_some();
        inner.look.as_ref().is_some_and(|look| match self {
            #[cfg(feature = "files")]
            Self::PutFiles | Self::DeleteFile if !delivery.has_files() => false,
            Self::Style | Self::Icon => true,
            Self::Buyer | Self::Opened => look.has_buyer(),
            Self::Lost => look.has_buyer() && inner.ledger.office().is_some(),
            Self::SignIn => look.has_desk() && inner.tokens.is_some() && can_sign_in,
            _ => look.has_desk() && inner.seller.is_some() && can_sign_in,
        })
    }
}

/// Answers a request for a page. The body of a form of the desk is kept in memory if a signed-in seller sent it, and if
/// it does not come from another site. If the sender is not signed in, the body is kept only if the form is
/// [carried on](sign_in::is_carried_on), that is, handled once the sender has signed in. Such a body counts against the
/// memory budget for unauthenticated bodies.
pub(super) async fn answer<E>(
    (path, shows): (&'static str, PageHandler),
    delivery: &Delivery,
    call: &Call,
    rule: BodyRule,
    body: Pin<&mut (impl Stream<Item = Result<Bytes, E>> + Send)>,
) -> Result<Reply, ApiError> {
    let look = delivery.inner.look.as_deref().ok_or(ApiError::NOT_FOUND)?;
    // `Cookie` is not checked: cookies of other applications may contain any bytes.
    [header::HOST, header::ORIGIN].iter().try_for_each(|name| check_text(&call.headers, name))?;
    let mut visit = PageRequest { delivery, look, call, path, form: None };
    let show = match shows {
        PageHandler::Public(show) => {
            if visit.is_form() {
                let body = read(rule, &call.headers, body, Keep::Within(&delivery.inner.bodies)).await;
                visit.form = Some(Form::read(call, &body)?);
            }
            return show(visit).await;
        }
        #[cfg(feature = "files")]
        PageHandler::Upload(show) => {
            let seller = SignedIn::find(&visit).await?.ok_or_else(|| SignedIn::is_missing(&visit))?;
            let pieces = pin!(body.map(|piece| piece.map_err(|_| crate::files::Broken)));
            return show(visit, seller, pieces).await;
        }
        PageHandler::Seller(show) => show,
    };
    let found = SignedIn::find(&visit).await;
    if visit.is_form() {
        // Read the body even if it is not kept in memory, because browsers show no response before they have sent the
        // whole form.
        let is_carried_on = matches!(found, Ok(None)) && sign_in::is_carried_on(&visit, rule);
        let keep = if is_carried_on {
            Keep::Within(&delivery.inner.bodies)
        } else {
            Keep::all_if(matches!(found, Ok(Some(_))))
        };
        let body = read(rule, &call.headers, body, keep).await;
        if is_carried_on {
            visit.form = Some(Form::read(call, &body)?);
            return sign_in::resumed(visit, show).await;
        }
        if matches!(found, Ok(Some(_))) {
            visit.form = Some(Form::read(call, &body)?);
        }
    }
    let seller = found?.ok_or_else(|| SignedIn::is_missing(&visit))?;
    // Signing out needs no CSRF token, so that it also works in a tab that shows a page of an older session.
    // `SignedIn::find` has already refused forms from other sites.
    let needs_csrf = path != Page::SignOut.row().path;
    if needs_csrf && visit.form.as_ref().is_some_and(|form| check_csrf(form, &seller.csrf).is_err()) {
        return sign_in::proved_again(visit, show).await;
    }
    let seller = seller.counting(delivery).await;
    show(visit, seller).await
}

/// Returns the stylesheet. Its URL contains a hash of the content, so browsers may cache it for a year.
fn style(visit: PageRequest<'_>) -> Answering<'_> {
    let style = visit.look.style();
    asset(visit, "text/css; charset=utf-8", style)
}

/// Returns the icon, which shows the first letter of the shop's name.
fn icon(visit: PageRequest<'_>) -> Answering<'_> {
    let icon = visit.look.icon();
    asset(visit, "image/svg+xml", icon)
}

#[expect(clippy::needless_pass_by_value, reason = "handlers of pages have this signature")]
fn asset<'c>(visit: PageRequest<'c>, content_type: &'static str, content: Bytes) -> Answering<'c> {
    Box::pin(async move {
        if visit.call.method == Method::POST {
            return Err(ApiError::MALFORMED);
        }
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        Ok(Reply::text(content_type, content)
            .with_header(&names::CACHE_CONTROL, forever)
            .with_header(&names::CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
    })
}
