//! The types of a row of the endpoint [table](super::table).

use ::http::Method;

use super::Call;
use super::body::BodyRule;
#[cfg(feature = "files")]
use super::body::Pieces;
use super::describe::{Body, Field, Shape};
use super::error::Answering;
use super::fields::{Fault, Fields};
use super::parameter::Parameter;
use super::proof::{Seller, SharedSecret, VerifiedKey};
use super::query::FetchParams;
use crate::delivery::Delivery;
use crate::email::Email;
use crate::error::ErrorCode;
use crate::limit::Policy;

/// The description of one endpoint. The pipeline handles every call of the endpoint according to this description.
pub(super) struct Row {
    /// The path, relative to where the API is mounted. No two endpoints have the same path.
    pub(super) path: &'static str,
    pub(super) verb: Verb,
    pub(super) body: BodyRule,
    /// The rate limit per client address, checked before the body and the credential are read.
    pub(super) limit: Option<Policy>,
    /// Whether pages of [other origins](crate::CrossOrigin) may call the endpoint, if the host application allows the
    /// origin.
    pub(super) cross_origin: bool,
    /// Who may call the endpoint, and the function that answers.
    pub(super) handler: Handler,
    /// The error codes that the endpoint can answer with. Each has a case in the project's HTTP tests.
    pub(super) codes: &'static [ErrorCode],
    pub(super) openapi: Docs,
}

/// The methods that an endpoint accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// GET and HEAD. HEAD is answered like GET, but without the body.
    Get,
    Post,
    #[cfg(feature = "files")]
    Put,
    /// GET, HEAD and POST, for an HTML page. GET shows the page, and POST submits the form on it.
    #[cfg(feature = "pages")]
    GetOrPost,
}

/// Who may call an endpoint, and the function that answers. Arguments such as [`VerifiedKey`] and [`Seller`] prove that
/// the caller was authenticated, because only a check of the caller's credential constructs them.
pub(super) enum Handler {
    /// Anybody may call.
    Public(for<'c> fn(&'c Delivery, &'c Call) -> Answering<'c>),
    /// Anybody may call, with a buyer's e-mail address in the body. The first function reads the address from the body,
    /// and the second function answers. The body is dropped before the second function is called, because that function
    /// may take long, and the memory budget of unauthenticated bodies does not count complete bodies.
    PublicPost(fn(&Fields<'_>) -> Result<Email, Fault>, for<'c> fn(&'c Delivery, Email) -> Answering<'c>),
    /// An HTML page. The [`PageHandler`](super::pages::handler::PageHandler) determines who may see the page.
    #[cfg(feature = "pages")]
    Page(super::pages::handler::PageHandler),
    /// Anybody with a key may call, to validate the key. The reply to a call with a wrong key contains `"valid":false`.
    Key(for<'c> fn(&'c Delivery, VerifiedKey) -> Answering<'c>),
    /// Anybody with a key may call, to fetch a product. Each key has its own rate limit.
    Product(for<'c> fn(&'c Delivery, &'c Call, VerifiedKey, FetchParams) -> Answering<'c>),
    /// The commerce platform may call, authenticated by the shared secret in the body.
    SharedSecret(for<'c> fn(&'c Delivery, SharedSecret, Fields<'c>) -> Answering<'c>),
    /// A commerce platform may call, authenticated by the signature of the request.
    SignedWebhook(fn(&Delivery, super::proof::Event) -> Answering<'_>),
    /// The seller may call, with a JSON body.
    Seller(for<'c> fn(&'c Delivery, Seller, Fields<'c>) -> Answering<'c>),
    /// The seller may call, with a body that the handler reads while it arrives.
    #[cfg(feature = "files")]
    Upload(for<'c> fn(&'c Delivery, Seller, &'c Call, Pieces<'c>) -> Answering<'c>),
    /// Anybody with a ticket may call. A ticket permits the download of one file for a limited time. The handler reads
    /// the ticket from the path, and checks it.
    #[cfg(feature = "files")]
    File(for<'c> fn(&'c Delivery, &'c Call) -> Answering<'c>),
    /// The seller may call, with parameters in the query.
    SellerQuery(for<'c> fn(&'c Delivery, Seller, &'c Call) -> Answering<'c>),
}

/// The description of an endpoint for the OpenAPI document.
#[cfg_attr(
    not(all(test, feature = "sqlite", feature = "files")),
    expect(dead_code, reason = "a test makes the OpenAPI document of it")
)]
pub(super) struct Docs {
    /// `buyer`, `platform`, `public` or `seller`.
    pub(super) tag: &'static str,
    /// The `operationId`, which client generators use as the name of the function.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// The parameters in the query and in the path, and the header field `Idempotency-Key` if the endpoint reads it.
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<Body>,
    /// The type of a successful reply. `None` for file downloads, for HTML pages, and for the endpoint that returns the
    /// OpenAPI document.
    pub(super) success: Option<Shape>,
    /// Whether a successful reply can also be a CSV table.
    pub(super) has_csv: bool,
}

impl Docs {
    /// A description without texts, parameters and bodies. A row sets the fields that its endpoint needs.
    pub(super) const EMPTY: Self = Self {
        tag: "",
        id: "",
        summary: "",
        description: "",
        parameters: &[],
        body: None,
        success: None,
        has_csv: false,
    };

    /// The same for an endpoint of the seller.
    pub(super) const SELLER: Self = Self { tag: "seller", ..Self::EMPTY };
}

impl Row {
    /// Returns the fields of the JSON body.
    pub(super) fn fields(&self) -> &'static [Field] {
        self.openapi.body.as_ref().map_or(&[], |body| body.fields)
    }

    /// Returns whether replies must not be cached, because calls carry a credential or personal data.
    pub(super) fn is_confidential(&self) -> bool {
        match self.handler {
            Handler::Public(_) => false,
            // Pages set their own caching headers.
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
            #[cfg(feature = "files")]
            Self::Put => *method == Method::PUT,
            #[cfg(feature = "pages")]
            Self::GetOrPost => Self::Get.takes(method) || Self::Post.takes(method),
        }
    }

    /// Returns the value of the `Allow` header.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::Get => "GET, HEAD",
            Self::Post => "POST",
            #[cfg(feature = "files")]
            Self::Put => "PUT",
            #[cfg(feature = "pages")]
            Self::GetOrPost => "GET, HEAD, POST",
        }
    }
}
