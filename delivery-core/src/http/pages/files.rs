//! The seller's forms for the files of a product: one uploads files, and one confirms that a file is deleted.

use std::future::ready;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ::http::header;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use minijinja::{Value, context};
use multer::{Constraints, Field, Multipart, SizeLimit};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::file_list::size;
use super::frame::desk;
use super::lists::product_id;
use super::product::page_of;
use super::{ApiError, PageRequest, SignedIn};
use crate::delivery::NewFile;
use crate::error::ErrorCode;
use crate::files::Broken;
use crate::http::body::Pieces;
use crate::http::{Reply, query};
use crate::product::{FileName, ProductId};

/// How long the head of each part of the multipart form may take to arrive. The contents of the files have other
/// deadlines.
const HEAD: Duration = Duration::from_mins(1);
/// The maximum number of bytes that may arrive before each file, and after the last one. Browsers send a few hundred.
const HEAD_LENGTH: usize = 256 << 10;
/// The form parser gets the body in pieces of at most this many bytes. Two pieces must fit into [`HEAD_LENGTH`],
/// because the head of a file may begin in one piece and end in the next.
const PIECE: usize = 64 << 10;
/// The maximum length of the field with the CSRF token, in bytes.
const TOKEN: u64 = 1 << 10;

/// Adds the files of a submitted form to a product, one after the other while they arrive. If a file is refused, the
/// files before it stay added.
pub(super) async fn upload(request: PageRequest<'_>, seller: SignedIn, pieces: Pieces<'_>) -> Result<Reply, ApiError> {
    let id = product_id(&request, "id")?.ok_or(ApiError::NOT_FOUND)?;
    request.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?;
    if !request.is_form() {
        return Ok(request.go_to(&format!("/desk/product?id={id}")));
    }
    let kind = request.call.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(|_| ErrorCode::UnsupportedMediaType)?;
    let limits = Constraints::new().size_limit(SizeLimit::new().for_field("csrf", TOKEN));
    // The number of bytes that may still arrive before the next file. The parser of the form keeps these bytes in
    // memory.
    let left = Arc::new(AtomicUsize::new(HEAD_LENGTH));
    let counted = left.clone();
    // The form parser reads all pieces that are ready before it parses any of them. The pause after each piece makes it
    // parse the piece before it reads the next one. Without the pause, bytes of a file that arrive together with the
    // end of the previous file would count as the file's head.
    let pause = || stream::once(yield_now()).filter_map(|()| ready(None));
    let pieces = pieces.flat_map(|piece| stream::iter(cut(piece)));
    let pieces = pieces.flat_map(move |piece| stream::once(ready(piece)).chain(pause()));
    let pieces = pieces.map(move |piece| {
        let piece = piece?;
        let before = counted.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(piece.len()));
        before.map(|_| piece).map_err(|_| Broken)
    });
    let mut form = Multipart::with_constraints(pieces, boundary, limits);
    // The CSRF token must be the first field, so that no file of a forged form is stored.
    let token = match next(&mut form).await? {
        Some(field) if field.name() == Some("csrf") => timeout(HEAD, field.text()).await.ok().and_then(Result::ok),
        _ => None,
    };
    seller.csrf.check(&token.unwrap_or_default())?;
    let mut count = 0;
    while let Some(field) = next(&mut form).await? {
        // If the seller has chosen no file, the form has a part with an empty file name.
        let Some(name) = field.file_name().filter(|name| !name.is_empty()).map(str::to_owned) else { continue };
        left.store(usize::MAX, Relaxed);
        let added = put(&request, &seller, id, &name, field).await?;
        left.store(HEAD_LENGTH, Relaxed);
        if let Err(sentence) = added {
            return page_of(&request, &seller, id, &format!("{name}: {sentence}")).await;
        }
        count += 1;
    }
    match count {
        0 => page_of(&request, &seller, id, "Choose a file first.").await,
        _ => Ok(request.go_to(&format!("/desk/product?id={id}&done=files"))),
    }
}

/// Cuts a piece of the body into pieces of at most [`PIECE`] bytes.
fn cut<E>(piece: Result<Bytes, E>) -> impl Iterator<Item = Result<Bytes, E>> {
    let (mut bytes, mut error) = piece.map_or_else(|error| (Bytes::new(), Some(error)), |bytes| (bytes, None));
    iter::from_fn(move || match error.take() {
        None if bytes.is_empty() => None,
        None => Some(Ok(bytes.split_to(bytes.len().min(PIECE)))),
        Some(error) => Some(Err(error)),
    })
}

async fn next<'f>(form: &mut Multipart<'f>) -> Result<Option<Field<'f>>, ApiError> {
    let field = timeout(HEAD, form.next_field()).await.map_err(|_| ApiError::MALFORMED)?;
    field.map_err(|_| ApiError::MALFORMED)
}

/// Adds one file. The inner error is a sentence for the seller.
async fn put(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    product: ProductId,
    name: &str,
    field: Field<'_>,
) -> Result<Result<(), String>, ApiError> {
    // Some browsers send the path of the file instead of its name. All browsers encode quotation marks as `%22`, and no
    // other character that a name may contain (<https://html.spec.whatwg.org/#multipart-form-data>).
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default().replace("%22", "\"");
    let name: FileName = match name.parse() {
        Ok(name) => name,
        Err(expected) => return Ok(Err(format!("the name {expected}."))),
    };
    let media_type = field.content_type().and_then(|kind| kind.as_ref().parse().ok()).unwrap_or_default();
    let pieces = field.map(|piece| piece.map_err(|_| Broken));
    let seller_desk = request.delivery.desk(&seller.actor);
    let added = seller_desk.put_file(NewFile { product, name, media_type, length: None, sha256: None }, pieces).await;
    match added.map_err(crate::http::api::admin::files::refused) {
        Ok(_) => Ok(Ok(())),
        Err(ApiError::Fault(fault)) => Ok(Err(fault.message().to_owned())),
        Err(ApiError::Code(ErrorCode::PayloadTooLarge)) => {
            Ok(Err("the file is larger than this shop takes.".to_owned()))
        }
        Err(error) => Err(error),
    }
}

pub(super) async fn delete(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    if let Some(form) = &request.form {
        let id = form.text("id").parse().ok().and_then(|id| ProductId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?;
        let name = form.text("name").parse().map_err(|_| ApiError::NOT_FOUND)?;
        // It is not an error if the file is already gone, because the form may have been sent twice.
        request.delivery.desk(&seller.actor).delete_file(id, &name).await?;
        return Ok(request.go_to(&format!("/desk/product?id={id}&done=file_deleted")));
    }
    let id = product_id(&request, "id")?.ok_or(ApiError::NOT_FOUND)?;
    let product = request.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?;
    let name = query::parameter(request.call, "name").map_err(|_| ApiError::MALFORMED)?.unwrap_or_default();
    let file = product.files().iter().find(|file| file.name.as_str() == name).ok_or(ApiError::NOT_FOUND)?;
    let values = context! {
        title => "Delete this file",
        sentence => "Buyers who open the product from now on do not get it. Downloads that have begun can finish.",
        button => "Delete it",
        fields => Vec::<Value>::new(),
        about => [("Product", product.name().to_owned()), ("File", name.to_string()), ("Size", size(file.size))],
        action => "/desk/product/file/delete",
        hidden => [("id", id.to_string()), ("name", name.to_string())],
        back => format!("/desk/product?id={id}"),
        is_dangerous => true,
        ..desk(&request, &seller, "/desk/products")
    };
    request.page("confirm.html", values)
}
