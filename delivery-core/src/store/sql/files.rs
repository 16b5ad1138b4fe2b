//! The rows of products' files.

use async_trait::async_trait;

use super::rows::{self, Columns, milliseconds, parsed};
use super::session::{Database, Patience, Session, Stale, Value, values};
use crate::ledger::{Action, Edit};
use crate::product::{File, FileName, MOST_FILES, ObjectName, Product, ProductId};
use crate::store::{FileRow, Files, StoreError};

macro_rules! file_columns {
    () => {
        "object, name, size, sha256, kind, added_at"
    };
}

const FILES: &str =
    concat!("SELECT ", file_columns!(), " FROM delivery_file WHERE product = $1 AND ended_at IS NULL ORDER BY folded");

const FILE: &str = concat!("SELECT ", file_columns!(), " FROM delivery_file WHERE object = $1 AND product = $2");

const ROWS: &str = "SELECT object, ended_at FROM delivery_file WHERE object > $1 ORDER BY object LIMIT $2";

/// Counts the present files of product `$1`, without the file whose [folded](FileName::folded) name is `$2`. Files that
/// were deleted or replaced are not counted.
const OTHERS: &str =
    "SELECT count(*) AS others FROM delivery_file WHERE product = $1 AND folded <> $2 AND ended_at IS NULL";

const END: &str = "UPDATE delivery_file SET ended_at = $1 WHERE product = $2 AND folded = $3 AND ended_at IS NULL";

const ADD: &str = "INSERT INTO delivery_file (object, product, name, folded, size, sha256, kind, added_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

const FORGET: &str = "DELETE FROM delivery_file WHERE object = $1 AND ended_at IS NOT NULL";

#[async_trait]
impl<D: Database> Files for D {
    async fn put_file(&self, product: ProductId, file: File, edit: Edit) -> Result<Option<bool>, StoreError> {
        // Waits long for a lock if necessary, because a failure would discard the file that was just uploaded.
        self.write(Patience::Long, move |session| {
            Box::pin(async move {
                // The lock serializes the calls of several servers for one product.
                let lock = session.dialect().locking("SELECT id FROM delivery_product WHERE id = $1");
                if session.row(&lock, values![product.get()]).await?.is_none() {
                    return Ok(None);
                }
                let folded = file.name.folded();
                let others = session.row(OTHERS, values![product.get(), &*folded]).await?;
                let others = others.map(|row| row.integer("others")).transpose()?.unwrap_or_default();
                if usize::try_from(others).is_ok_and(|others| others >= MOST_FILES) {
                    return Err(StoreError::Refused { source: None });
                }
                session.changed(Stale::Products);
                let ended = values![edit.at.timestamp_millis(), product.get(), &*folded];
                let is_replaced = session.execute(END, ended).await? > 0;
                session.execute(ADD, columns(product, &file, folded)?).await?;
                let action = if is_replaced { Action::FileReplaced } else { Action::FileAdded };
                log_change(session, product, action, &file.name, edit).await?;
                Ok(Some(is_replaced))
            })
        })
        .await
    }

    async fn delete_file(&self, product: ProductId, name: &FileName, edit: Edit) -> Result<bool, StoreError> {
        let name = name.clone();
        self.write(Patience::Usual, move |session| {
            Box::pin(async move {
                session.changed(Stale::Products);
                let ended = values![edit.at.timestamp_millis(), product.get(), name.folded()];
                if session.execute(END, ended).await? == 0 {
                    return Ok(false);
                }
                log_change(session, product, Action::FileDeleted, &name, edit).await.map(|()| true)
            })
        })
        .await
    }

    async fn file(&self, product: ProductId, object: ObjectName) -> Result<Option<File>, StoreError> {
        let wanted = values![object.to_string(), product.get()];
        let found = self.read(Patience::Usual, |session| Box::pin(session.row(FILE, wanted))).await?;
        found.as_ref().map(file).transpose()
    }

    async fn file_rows(&self, after: Option<ObjectName>, limit: usize) -> Result<Vec<FileRow>, StoreError> {
        let after = after.map(|after| after.to_string()).unwrap_or_default();
        let wanted = values![after, i64::try_from(limit).unwrap_or(i64::MAX)];
        let found = self.read(Patience::Usual, move |session| Box::pin(session.rows(ROWS, wanted))).await?;
        let rows = found.iter().map(|row| {
            let ended_at = row.integer_or_null("ended_at")?.map(milliseconds).transpose()?;
            Ok(FileRow { object: object(row)?, ended_at })
        });
        rows.collect()
    }

    async fn forget_files(&self, objects: &[ObjectName]) -> Result<(), StoreError> {
        let objects = objects.to_vec();
        self.write(Patience::Usual, move |session| {
            Box::pin(async move {
                for object in objects {
                    session.execute(FORGET, values![object.to_string()]).await?;
                }
                Ok(())
            })
        })
        .await
    }
}

/// Reads the files of `product`, and returns the product with them.
pub(super) async fn with_files(session: &mut Session<'_>, product: Product) -> Result<Product, StoreError> {
    let files = session.rows(FILES, values![product.id().get()]).await?;
    Ok(product.with_files(files.iter().map(file).collect::<Result<_, _>>()?))
}

async fn log_change(
    session: &mut Session<'_>,
    product: ProductId,
    action: Action,
    name: &FileName,
    edit: Edit,
) -> Result<(), StoreError> {
    session.log((None, Some(product.get())), action, &Edit { detail: Some(name.to_string()), ..edit }).await
}

fn file(row: &impl Columns) -> Result<File, StoreError> {
    let sha256 = row.bytes("sha256")?.try_into().map_err(|_| StoreError::corrupt("a hash of another length"))?;
    Ok(File {
        object: object(row)?,
        name: parsed(row.text("name")?.parse(), "name of a file")?,
        size: u64::try_from(row.integer("size")?).map_err(|_| StoreError::corrupt("a size below zero"))?,
        sha256,
        media_type: parsed(row.text("kind")?.parse(), "media type")?,
        added_at: rows::milliseconds(row.integer("added_at")?)?,
    })
}

fn object(row: &impl Columns) -> Result<ObjectName, StoreError> {
    parsed(row.text("object")?.parse(), "name of an object")
}

/// Returns the parameters of [`ADD`].
fn columns(product: ProductId, file: &File, folded: String) -> Result<Vec<Value>, StoreError> {
    let size = i64::try_from(file.size).map_err(|_| StoreError::corrupt("a size out of range"))?;
    Ok(values![
        file.object.to_string(),
        product.get(),
        file.name.as_str(),
        folded,
        size,
        &file.sha256[..],
        file.media_type.as_str(),
        file.added_at.timestamp_millis(),
    ])
}
