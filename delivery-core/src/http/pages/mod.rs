//! The seller's desk and the buyer's page: HTML pages that use the same operations as the API.
//!
//! Each [`Page`] has a row in the endpoint table, as each endpoint of the API has. The same pipeline handles requests
//! for pages and requests for the API. All pages work without JavaScript. Some have a small script, whose hash the
//! content security policy allows.
//!
//! To add a page, write its handler in a file of this folder, and add a line to the macro call `pages!` below.
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
#[cfg(feature = "files")]
mod import;
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
#[cfg(feature = "files")]
mod streamed;
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
use self::session::{PageRequest, SignedIn, base};
pub(super) use self::unknown::unknown;
use super::body::{BodyRule, Keep, read};
use super::error::ApiError;
use super::query::check_text;
use super::row::{Docs, Handler, Row, Verb};
use super::{Call, Reply, names};
use crate::delivery::Delivery;

/// The limits on the body of a form that has only short fields: at most 16 KiB, within 10 seconds.
const FIELDS: BodyRule = BodyRule::Read { limit: 16 << 10, deadline: Duration::from_secs(10) };
/// The limits on the body of a form with the content of a product or a post: at most 4 MiB, within 30 seconds. The
/// content has at most 1 MiB, but browsers percent-encode it, and this can triple its size.
const CONTENT: BodyRule = BodyRule::Read { limit: 4 << 20, deadline: Duration::from_secs(30) };

/// What the endpoint rows of all pages have in common. [`Page::row`] sets the path, the handler, and how the body is
/// read.
const PAGE: Row = Row {
    path: "",
    verb: Verb::GetOrPost,
    body: BodyRule::None,
    limit: None,
    cross_origin: false,
    handler: Handler::Page(PageHandler::Public(|_| Box::pin(async { Err(ApiError::NOT_FOUND) }))),
    codes: &[],
    openapi: Docs::EMPTY,
};

/// Makes the [`PageHandler`] of an asynchronous function. The handler boxes the future of the function.
macro_rules! boxed {
    (Public($show:path)) => {
        PageHandler::Public(|request| Box::pin($show(request)))
    };
    (Seller($show:path)) => {
        PageHandler::Seller(|request, seller| Box::pin($show(request, seller)))
    };
    (Upload($show:path)) => {
        PageHandler::Upload(|request, seller, pieces| Box::pin($show(request, seller, pieces)))
    };
}

macro_rules! pages {
    ($(
        $(#[doc = $doc:literal])+
        $(#[cfg($cfg:meta)])?
        $page:ident => $path:literal, $body:expr, $who:ident($show:path);
    )+) => {
        /// A page of the seller's desk, or a page for buyers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Page {
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? $page,)+
        }

        impl Page {
            /// Every page.
            pub const ALL: &'static [Self] = &[$($(#[cfg($cfg)])? Self::$page),+];

            pub(super) fn row(self) -> &'static Row {
                match self {
                    $($(#[cfg($cfg)])? Self::$page => {
                        static ROW: Row =
                            Row { path: $path, body: $body, handler: Handler::Page(boxed!($who($show))), ..PAGE };
                        &ROW
                    })+
                }
            }
        }
    };
}

pages! {
    /// The figures of a period from a week to a year, and what needs the seller's attention.
    Overview => "/desk", FIELDS, Seller(overview::show);
    /// The sign-in form of the desk.
    SignIn => "/desk/sign-in", FIELDS, Public(sign_in::sign_in);
    /// Ends the seller's session.
    SignOut => "/desk/sign-out", FIELDS, Seller(sign_in::sign_out);
    /// The list of keys, with search and filters.
    Keys => "/desk/keys", FIELDS, Seller(keys::show);
    /// A key with its history.
    Key => "/desk/key", FIELDS, Seller(key::show);
    /// The form that issues a key by hand.
    Issue => "/desk/issue", FIELDS, Seller(issue::show);
    /// The form that imports sales from a file.
    #[cfg(feature = "files")]
    Import => "/desk/import", BodyRule::Streamed, Upload(import::show);
    /// The confirmation form for a change of a key.
    ChangeKey => "/desk/key/change", FIELDS, Seller(change::show);
    /// The list of products.
    Products => "/desk/products", FIELDS, Seller(product::list);
    /// The form that adds or edits a product.
    Product => "/desk/product", CONTENT, Seller(product::show);
    /// The confirmation form that stops selling a product.
    ArchiveProduct => "/desk/product/archive", FIELDS, Seller(product::archive);
    /// Receives the files that the seller uploads for a product.
    #[cfg(feature = "files")]
    PutFiles => "/desk/product/files", BodyRule::Streamed, Upload(files::upload);
    /// The confirmation form that deletes a file of a product.
    #[cfg(feature = "files")]
    DeleteFile => "/desk/product/file/delete", FIELDS, Seller(files::delete);
    /// The list of posts.
    Posts => "/desk/posts", FIELDS, Seller(post::list);
    /// The form that adds or edits a post.
    Post => "/desk/post", CONTENT, Seller(post::show);
    /// The confirmation form that deletes a post.
    DeletePost => "/desk/post/delete", FIELDS, Seller(post::delete);
    /// The list of messages in the outbox.
    Messages => "/desk/messages", FIELDS, Seller(messages::show);
    /// The list of events that commerce platforms have reported.
    Events => "/desk/events", FIELDS, Seller(events::list);
    /// An event of a platform, with a form to apply it again.
    Event => "/desk/event", FIELDS, Seller(events::show);
    /// The audit log.
    Audit => "/desk/audit", FIELDS, Seller(audit::show);
    /// A list of the desk as a CSV table.
    Export => "/desk/export", FIELDS, Seller(export::show);
    /// The webhook addresses to configure at the platforms, forms for the platforms' secrets, and a form that sends a
    /// test e-mail.
    Setup => "/desk/setup", FIELDS, Seller(setup::show);
    /// A preview of the e-mails to buyers, for an example key.
    Email => "/desk/email", FIELDS, Seller(email::show);
    /// The form that erases a customer.
    Erase => "/desk/erase", FIELDS, Seller(setup::erase);
    /// The stylesheet of all pages.
    Style => "/key/style.css", FIELDS, Public(style);
    /// The icon of all pages.
    Icon => "/key/icon.svg", FIELDS, Public(icon);
    /// The page where a buyer enters a key and opens the product.
    Buyer => "/key", FIELDS, Public(buyer::show);
    /// Shows a product that a buyer has opened.
    Opened => "/key/opened", FIELDS, Public(opened::show);
    /// The form where a buyer requests lost keys by e-mail.
    Lost => "/key/lost", FIELDS, Public(buyer::lost);
}

impl Page {
    /// Returns whether the service is configured for the page. No page is served without a [`Look`](crate::look::Look),
    /// which can also disable the desk or the buyer's pages. Some pages have further requirements:
    ///
    /// - The desk needs a [`Seller`](crate::seller::Seller), which authenticates sellers. If sellers sign in with
    ///   tokens, the desk also needs a store with an `Office`, which stores the sessions.
    /// - The page for lost keys needs a store with an `Office` too.
    /// - The pages for files need a service in which products can have files.
    pub(super) fn is_served_by(self, delivery: &Delivery) -> bool {
        let inner = &delivery.inner;
        let can_sign_in = inner.tokens.is_none() || inner.ledger.office().is_some();
        inner.look.as_ref().is_some_and(|look| match self {
            #[cfg(feature = "files")]
            Self::PutFiles | Self::DeleteFile if !delivery.has_files() => false,
            #[cfg(feature = "files")]
            Self::Import if !can_import(delivery) => false,
            Self::Style | Self::Icon => true,
            Self::Buyer | Self::Opened => look.has_buyer(),
            Self::Lost => look.has_buyer() && inner.ledger.office().is_some(),
            Self::SignIn => look.has_desk() && inner.tokens.is_some() && can_sign_in,
            _ => look.has_desk() && inner.seller.is_some() && can_sign_in,
        })
    }
}

/// Returns whether the desk has the form that imports sales. The form needs a store with an `Office`. It also needs the
/// feature `files`, without which the pages cannot read forms with files.
fn can_import(delivery: &Delivery) -> bool {
    cfg!(feature = "files") && delivery.inner.ledger.office().is_some()
}

/// Answers a request for a page. The body of a form of the desk is kept in memory only in two cases:
///
/// - A signed-in seller sent the form, and the form is not from another site.
/// - The sender is not signed in, but the form is [carried on](sign_in::is_carried_on): it is handled once the sender
///   has signed in. Such a form counts against the memory budget for unauthenticated bodies.
///
/// The form of a public page is always kept, and counts against this budget too.
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
    let mut request = PageRequest { delivery, look, call, path, form: None };
    let show = match shows {
        PageHandler::Public(show) => {
            if request.is_form() {
                let body = read(rule, &call.headers, body, Keep::Within(&delivery.inner.bodies)).await;
                request.form = Some(Form::read(call, &body)?);
            }
            return show(request).await;
        }
        #[cfg(feature = "files")]
        PageHandler::Upload(show) => {
            let seller = SignedIn::find(&request).await?.ok_or_else(|| SignedIn::is_missing(&request))?;
            let seller = seller.counting(delivery).await;
            let pieces = pin!(body.map(|piece| piece.map_err(|_| crate::files::Broken)));
            return show(request, seller, pieces).await;
        }
        PageHandler::Seller(show) => show,
    };
    let found = SignedIn::find(&request).await;
    if request.is_form() {
        // Read the body even if it is not kept in memory, because browsers show no response before they have sent the
        // whole form.
        let is_carried_on = matches!(found, Ok(None)) && sign_in::is_carried_on(&request, rule);
        let keep = if is_carried_on {
            Keep::Within(&delivery.inner.bodies)
        } else {
            Keep::all_if(matches!(found, Ok(Some(_))))
        };
        let body = read(rule, &call.headers, body, keep).await;
        if is_carried_on {
            request.form = Some(Form::read(call, &body)?);
            return sign_in::resumed(request, show).await;
        }
        if matches!(found, Ok(Some(_))) {
            request.form = Some(Form::read(call, &body)?);
        }
    }
    let seller = found?.ok_or_else(|| SignedIn::is_missing(&request))?;
    // Signing out needs no CSRF token, so that it also works in a tab that shows a page of an older session.
    // `SignedIn::find` has already refused forms from other sites.
    let needs_csrf = path != Page::SignOut.row().path;
    if needs_csrf && request.form.as_ref().is_some_and(|form| seller.csrf.check(form.text("csrf")).is_err()) {
        return sign_in::proved_again(request, show).await;
    }
    let seller = seller.counting(delivery).await;
    show(request, seller).await
}

/// Returns the stylesheet. Its URL contains a hash of the content, so browsers may cache it for a year.
async fn style(PageRequest { look, call, .. }: PageRequest<'_>) -> Result<Reply, ApiError> {
    asset(call, "text/css; charset=utf-8", look.style()).await
}

/// Returns the icon, which shows the first letter of the shop's name.
async fn icon(PageRequest { look, call, .. }: PageRequest<'_>) -> Result<Reply, ApiError> {
    asset(call, "image/svg+xml", look.icon()).await
}

#[expect(clippy::unused_async, reason = "the handlers of pages are async functions")]
async fn asset(call: &Call, content_type: &'static str, content: Bytes) -> Result<Reply, ApiError> {
    if call.method == Method::POST {
        return Err(ApiError::MALFORMED);
    }
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    Ok(Reply::text(content_type, content)
        .with_header(&names::CACHE_CONTROL, forever)
        .with_header(&names::CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
}
