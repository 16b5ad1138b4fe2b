//! The seller's forms for the files of a product: one uploads files, and one confirms that a file is deleted.

use ::http::StatusCode;
use futures_util::StreamExt;
use minijinja::{Value, context};
use multer::Field;

use super::file_list::size;
use super::frame::desk;
use super::lists::product_id;
use super::product::page_of;
use super::streamed::StreamedForm;
use super::{ApiError, PageRequest, SignedIn};
use crate::delivery::NewFile;
use crate::error::ErrorCode;
use crate::files::Broken;
use crate::http::body::Pieces;
use crate::http::{Reply, query};
use crate::product::{FileName, ProductId};

/// Adds the files of a submitted form to a product, one after the other, while they arrive. If a file is refused, the
/// files before it stay added.
pub(super) async fn upload(request: PageRequest<'_>, seller: SignedIn, pieces: Pieces<'_>) -> Result<Reply, ApiError> {
    let id = product_id(&request, "id")?.ok_or(ApiError::NOT_FOUND)?;
    request.delivery.product(id).await?.ok_or(ApiError::NOT_FOUND)?;
    if !request.is_form() {
        return Ok(request.go_to(&format!("/desk/product?id={id}")));
    }
    let mut form = StreamedForm::open(&request, &seller, pieces).await?;
    let mut count = 0;
    while let Some(field) = form.next().await? {
        // If the seller has chosen no file, the form has a part with an empty file name.
        let Some(name) = field.file_name().filter(|name| !name.is_empty()).map(str::to_owned) else { continue };
        form.begin_file();
        let added = put(&request, &seller, id, &name, field).await?;
        form.end_file();
        if let Err(sentence) = added {
            // If much of the form is left, the server closes the connection while the browser is still sending. Browsers
            // then show the page only if its status is an error.
            let before = if count > 0 { " The files before it were added." } else { "" };
            let page = page_of(&request, &seller, id, &format!("{name}: {sentence}{before}")).await?;
            return Ok(page.with_code(StatusCode::BAD_REQUEST));
        }
        count += 1;
    }
    match count {
        0 => page_of(&request, &seller, id, "Choose a file first.").await,
        _ => Ok(request.go_to(&format!("/desk/product?id={id}&done=files"))),
    }
}

/// Adds one file. The inner error is a sentence for the seller.
async fn put(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    product: ProductId,
    name: &str,
    field: Field<'_>,
) -> Result<Result<(), String>, ApiError> {
    // Some browsers send the path of the file instead of its name. Browsers encode a quotation mark in the name as
    // `%22`. They encode no other character that a file name may contain
    // (<https://html.spec.whatwg.org/#multipart-form-data>).
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
