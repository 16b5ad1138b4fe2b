//! What a row of the endpoint [table](super::table) is made of.

use ::http::Method;
use futures_util::future::BoxFuture;

use super::body::BodyRule;
use super::fields::{Fault, Fields};
use super::proof::{Platform, Seller, VerifiedKey};
use super::query::FetchParams;
use super::{Call, Reply};
use crate::delivery::Delivery;
use crate::email::Email;
use crate::error::ErrorCode;
use crate::limit::Policy;

/// What there is to say about an endpoint.
pub(super) struct Row {
    /// Relative to where the API is mounted. No two endpoints share one.
    pub(super) path: &'static str,
    pub(super) verb: Verb,
    pub(super) body: BodyRule,
    /// The limit that counts per address, before anything else is looked at.
    pub(super) limit: Option<Policy>,
    /// Who may call, and what answers.
    pub(super) handler: Handler,
    /// The codes it can answer with, beside a success. Every one has a row in the project's HTTP tests.
    pub(super) codes: &'static [ErrorCode],
    pub(super) openapi: Docs,
}

/// The method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// GET, and HEAD, which is answered like GET without the body.
    Get,
    Post,
    /// A page: GET shows it, POST sends its form.
    #[cfg(feature = "pages")]
    GetOrPost,
}

/// Who may call an endpoint, and the function that answers. The arguments of the function prove that the caller was
/// authenticated: only the pipeline can construct them.
pub(super) enum Handler {
    /// Anybody.
    Public(for<'c> fn(&'c Delivery, &'c Call) -> Answering<'c>),
    /// Anybody, with the address of a buyer in a body. Nobody vouches for the body: it is gone before the store is asked.
    PublicPost(fn(&Fields<'_>) -> Result<Email, Fault>, for<'c> fn(&'c Delivery, Email) -> Answering<'c>),
    /// A page, for people.
    #[cfg(feature = "pages")]
    Page(super::pages::handler::PageHandler),
    /// Holders of a key, to validate it. Refusals contain `"valid":false`.
    Key(for<'c> fn(&'c Delivery, VerifiedKey) -> Answering<'c>),
    /// Whoever has a key for a product. The key's own limit counts.
    Product(for<'c> fn(&'c Delivery, &'c Call, VerifiedKey, FetchParams) -> Answering<'c>),
    /// The commerce platform, by the shared secret in the body.
    SharedSecret(for<'c> fn(&'c Delivery, Platform, Fields<'c>) -> Answering<'c>),
    /// A commerce platform, by the signature of the request.
    SignedWebhook(fn(&Delivery, super::proof::Event) -> Answering<'_>),
    /// The seller, by the admin token, with a body.
    Seller(for<'c> fn(&'c Delivery, Seller, Fields<'c>) -> Answering<'c>),
    /// The seller, by the admin token, with a query.
    SellerQuery(for<'c> fn(&'c Delivery, Seller, &'c Call) -> Answering<'c>),
}

/// An answer under way.
pub(super) type Answering<'c> = BoxFuture<'c, Reply>;

/// What the document says about an endpoint.
#[cfg_attr(not(all(test, feature = "sqlite")), expect(dead_code, reason = "a test makes the OpenAPI document of it"))]
pub(super) struct Docs {
    /// `buyer`, `platform`, `public` or `seller`.
    pub(super) tag: &'static str,
    /// The name of the function that a client generator makes.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// In the query.
    pub(super) parameters: &'static [Parameter],
    /// The schema of what is sent.
    pub(super) body: Option<&'static str>,
    /// The schema of what is answered; `None` for the document itself.
    pub(super) success: Option<&'static str>,
}

/// A parameter in the query.
#[derive(Clone, Copy)]
pub(super) enum Parameter {
    Key,
    Product,
    IdempotencyKey,
    Category,
    Limit,
    Email,
    OrderId,
    Source,
    OfProduct,
    Status,
    Before,
    PageSize,
    Id,
    State,
    OfKey,
    Days,
    Outcome,
}

impl Row {
    /// Whether calls carry a credential, so that their answers must not be cached.
    pub(super) fn is_confidential(&self) -> bool {
        match self.handler {
            Handler::Public(_) => false,
            // It says for itself how it is cached.
            #[cfg(feature = "pages")]
            Handler::Page(_) => false,
            _ => true,
        }
    }
}

impl Verb {
    pub(super) fn takes(self, method: &Method) -> bool {
        match self {
            Self::Get => *method == Method::GET || *method == Method::HEAD,
            Self::Post => *method == Method::POST,
            #[cfg(feature = "pages")]
            Self::GetOrPost => Self::Get.takes(method) || Self::Post.takes(method),
        }
    }

    /// As `Allow` names it.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::Get => "GET, HEAD",
            Self::Post => "POST",
            #[cfg(feature = "pages")]
            Self::GetOrPost => "GET, HEAD, POST",
        }
    }
}
