//! Rows of files that are kept wrongly.

use async_trait::async_trait;
use delivery_core::key::Actor;
use delivery_core::ledger::Edit;
use delivery_core::product::{File, FileName, ObjectName, ProductId};
use delivery_core::store::{Catalog, CatalogEditor, FileRow, Files, StoreError};

use super::fault::Fault::{
    DropsDeletedFiles, DropsReplacedFiles, FindsFilesOfAnyProduct, ForgetsCurrentFiles, ForgetsWhoAddsAFile,
    KeepsFilesOfUnknownProducts, SkipsAFile,
};
use super::store::Wrong;

impl Wrong {
    fn files_of_inner(&self) -> &dyn Files {
        self.inner.files().expect("a store with files")
    }

    async fn drop_former(&self) -> Result<(), StoreError> {
        let rows = self.files_of_inner().file_rows(None, 1000).await?;
        let former: Vec<_> = rows.iter().filter(|row| row.ended_at.is_some()).map(|row| row.object).collect();
        self.files_of_inner().forget_files(&former).await
    }
}

#[async_trait]
impl Files for Wrong {
    async fn put_file(&self, product: ProductId, file: File, edit: Edit) -> Result<Option<bool>, StoreError> {
        let edit = if self.is(ForgetsWhoAddsAFile) { Edit::new(Actor::admin(), edit.at) } else { edit };
        let put = self.files_of_inner().put_file(product, file, edit).await?;
        if self.is(DropsReplacedFiles) {
            self.drop_former().await?;
        }
        Ok(put.or(self.is(KeepsFilesOfUnknownProducts).then_some(false)))
    }

    async fn delete_file(&self, product: ProductId, name: &FileName, edit: Edit) -> Result<bool, StoreError> {
        let deleted = self.files_of_inner().delete_file(product, name, edit).await?;
        if self.is(DropsDeletedFiles) {
            self.drop_former().await?;
        }
        Ok(deleted)
    }

    async fn file(&self, product: ProductId, object: ObjectName) -> Result<Option<File>, StoreError> {
        let mut found = self.files_of_inner().file(product, object).await?;
        if self.is(FindsFilesOfAnyProduct) {
            for listed in self.inner.products().await?.iter() {
                found = found.or(self.files_of_inner().file(listed.id, object).await?);
            }
        }
        Ok(found)
    }

    async fn file_rows(&self, after: Option<ObjectName>, limit: usize) -> Result<Vec<FileRow>, StoreError> {
        let mut rows = self.files_of_inner().file_rows(after, limit).await?;
        if self.is(SkipsAFile) && rows.len() > 1 {
            rows.remove(0);
        }
        Ok(rows)
    }

    async fn forget_files(&self, objects: &[ObjectName]) -> Result<(), StoreError> {
        if self.is(ForgetsCurrentFiles) {
            for listed in self.inner.products().await?.iter() {
                let product = self.inner.product(listed.id).await?;
                for file in product.iter().flat_map(|product| product.files()) {
                    if objects.contains(&file.object) {
                        let edit = Edit::new(delivery_core::key::Actor::admin(), file.added_at);
                        self.files_of_inner().delete_file(listed.id, &file.name, edit).await?;
                    }
                }
            }
        }
        self.files_of_inner().forget_files(objects).await
    }
}
