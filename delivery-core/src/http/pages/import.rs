//! The form that imports sales from a file.

use std::time::Duration;

use minijinja::{Value, context};
use multer::Field;
use tokio::time::timeout;

use super::form::{Form, FormError, said};
use super::frame::desk;
use super::setup::names;
use super::streamed::StreamedForm;
use super::{ApiError, PageRequest, SignedIn};
use crate::delivery::{Import, ImportError, ImportFormat, ImportOutcome, ImportSummary, ImportedRow};
use crate::error::ErrorCode;
use crate::http::Reply;
use crate::http::body::Pieces;
use crate::http::reply::RETRY_UNAVAILABLE;

/// The maximum length of the file, in bytes. The file is kept in memory.
const LONGEST: usize = 16 << 20;
/// How long the content of a field may take to arrive.
const DEADLINE: Duration = Duration::from_mins(5);
/// The maximum number of refused rows that the page lists.
const MOST: usize = 100;
/// The names of the fields other than the CSRF token and the file.
const FIELDS: [&str; 3] = ["from", "dry_run", "send"];

/// What an import did.
struct Done {
    options: Import,
    summary: ImportSummary,
    /// The first of the refused rows.
    refused: Vec<ImportedRow>,
}

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn, pieces: Pieces<'_>) -> Result<Reply, ApiError> {
    if !request.is_form() {
        return page(&request, &seller, &Form::of([("dry_run", "yes".to_owned())]), Ok(None));
    }
    let (form, file) = read(StreamedForm::open(&request, &seller, pieces).await?).await?;
    let from = form.given("from").map(str::parse::<ImportFormat>).transpose().map_err(|_| ApiError::MALFORMED)?;
    let options = Import { dry_run: form.text("dry_run") == "yes", send: form.text("send") == "yes", from };
    let file = match file {
        Ok(Some(file)) => file,
        Ok(None) => return page(&request, &seller, &form, Err(&FormError::new("file", "Choose a file first."))),
        // The status is 400 because the connection may be closed before the browser has sent the whole file. Chromium
        // then shows the page only if its status is an error.
        Err(fault) => {
            let reply = page(&request, &seller, &form, Err(&fault))?;
            return Ok(reply.with_status(ErrorCode::InvalidParams));
        }
    };
    let (mut refused, mut so_far) = (Vec::new(), ImportSummary::default());
    let imported = request.delivery.import(file.as_slice(), options, |row| {
        so_far.count(row.outcome);
        if row.outcome == ImportOutcome::Refused && refused.len() < MOST {
            refused.push(row);
        }
    });
    let (sentence, failure) = match imported.await {
        Ok(summary) => return page(&request, &seller, &form, Ok(Some(Done { options, summary, refused }))),
        Err(ImportError::MissingColumn(column)) => {
            let advice = if from.is_none() { " If a platform has written the file, choose the platform." } else { "" };
            (format!("The column {column} is missing.{advice}"), None)
        }
        Err(ImportError::Unreadable(error)) => (format!("The file cannot be read: {error}."), None),
        Err(ImportError::Failed(error)) if so_far == ImportSummary::default() => return Err(error.into()),
        Err(ImportError::Failed(error)) => (format!("The import broke off: {error}."), Some(error)),
    };
    let sentence = format!("{sentence}{}", continued(&so_far, options));
    let reply = page(&request, &seller, &form, Err(&FormError::new("file", sentence)))?;
    Ok(match failure {
        Some(error) if error.code() == ErrorCode::Unavailable => {
            reply.with_status(error.code()).retry_after(RETRY_UNAVAILABLE).because(error)
        }
        Some(error) => reply.with_status(error.code()).because(error),
        None => reply,
    })
}

/// Reads the fields of a form and the content of its file, if a file was chosen. The inner error is a message for the
/// seller about a file that is too large.
async fn read(mut parts: StreamedForm<'_>) -> Result<(Form, Result<Option<Vec<u8>>, FormError>), ApiError> {
    let (mut form, mut file) = (Form::of([]), Ok(None));
    while let Some(field) = parts.next().await? {
        let Some(name) = field.name().map(str::to_owned) else { continue };
        if field.file_name().is_some_and(|name| !name.is_empty()) && name == "file" {
            parts.begin_file();
            file = timeout(DEADLINE, content(field)).await.map_err(|_| ApiError::MALFORMED)??.map(Some);
            if file.is_err() {
                break;
            }
            parts.end_file();
        } else if FIELDS.contains(&name.as_str()) {
            let text = timeout(DEADLINE, field.text()).await.map_err(|_| ApiError::MALFORMED)?;
            form = form.with(&name, text.map_err(|_| ApiError::MALFORMED)?);
        }
    }
    Ok((form, file))
}

async fn content(mut field: Field<'_>) -> Result<Result<Vec<u8>, FormError>, ApiError> {
    let mut file = Vec::new();
    while let Some(piece) = field.chunk().await.map_err(|_| ApiError::MALFORMED)? {
        if file.len() + piece.len() > LONGEST {
            return Ok(Err(FormError::new("file", "The file is larger than 16 MiB. Split it into several files.")));
        }
        file.extend_from_slice(&piece);
    }
    Ok(Ok(file))
}

/// Renders the form, with what the import did or with an error.
fn page(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    form: &Form,
    result: Result<Option<Done>, &FormError>,
) -> Result<Reply, ApiError> {
    let fault = result.as_ref().err().copied();
    let done = result.ok().flatten().map(|Done { options, summary, refused }| {
        let more = summary.refused.saturating_sub(refused.len() as u64);
        let row = |row: ImportedRow| context! { line => row.line, order => row.order, reason => row.reason };
        let rows: Vec<Value> = refused.into_iter().map(row).collect();
        context! { sentence => told(&summary, options), more, refused => rows }
    });
    let mut formats = names(request.delivery);
    formats.retain(|(name, _)| name.parse::<ImportFormat>().is_ok());
    let values = context! {
        formats, done, chosen => form.text("from"), dry_run => form.text("dry_run") == "yes",
        send => form.text("send") == "yes", ..said(fault, desk(request, seller, "/desk/keys"))
    };
    request.page("import.html", values)
}

fn told(summary: &ImportSummary, options: Import) -> String {
    if *summary == ImportSummary::default() {
        return "The file has a header row and no sales. Nothing was imported.".to_owned();
    }
    let ImportSummary { issued, existing, refunded, refused } = summary;
    let begin =
        if options.dry_run { "Nothing was changed. Rows that would get a new key" } else { "Rows that got a new key" };
    format!("{begin}: {issued}; that have one: {existing}; that are refunded: {refunded}; that are refused: {refused}.")
}

/// Says which rows are in after an import that broke off, and how to continue it.
fn continued(so_far: &ImportSummary, options: Import) -> String {
    if *so_far == ImportSummary::default() {
        return String::new();
    }
    let again = " To continue, import the file again: sales that are here already stay as they are.";
    format!(" {}{}", told(so_far, options), if options.dry_run { "" } else { again })
}
