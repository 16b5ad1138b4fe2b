//! Faults of the port that keeps the rows of files.

use async_trait::async_trait;

use super::Faulty;
use delivery_core::ledger::Edit;
use delivery_core::product::{File, FileName, ObjectName, ProductId};
use delivery_core::store::{CatalogEditor, FileRow, Files, StoreError};

impl<S: CatalogEditor> Faulty<S> {
    fn inner_files(&self) -> Result<&dyn Files, StoreError> {
        self.inner.files().ok_or(StoreError::Unsupported)
    }
}

#[async_trait]
impl<S: CatalogEditor> Files for Faulty<S> {
    async fn put_file(&self, product: ProductId, file: File, edit: Edit) -> Result<Option<bool>, StoreError> {
        self.call(self.inner_files()?.put_file(product, file, edit)).await
    }

    async fn delete_file(&self, product: ProductId, name: &FileName, edit: Edit) -> Result<bool, StoreError> {
        self.call(self.inner_files()?.delete_file(product, name, edit)).await
    }

    async fn file(&self, product: ProductId, object: ObjectName) -> Result<Option<File>, StoreError> {
        self.call(self.inner_files()?.file(product, object)).await
    }

    async fn file_rows(&self, after: Option<ObjectName>, limit: usize) -> Result<Vec<FileRow>, StoreError> {
        self.call(self.inner_files()?.file_rows(after, limit)).await
    }

    async fn forget_files(&self, objects: &[ObjectName]) -> Result<(), StoreError> {
        self.call(self.inner_files()?.forget_files(objects)).await
    }
}
