//! Faults of the ports that keep products, their files, and posts.

use std::sync::Arc;

use super::{Faulty, port};
use delivery_core::HostRef;
use delivery_core::ledger::Edit;
use delivery_core::order::Source;
use delivery_core::post::{NewPost, Post, PostId};
use delivery_core::product::{File, FileName, Listing, NewProduct, ObjectName, Product, ProductId, RefName};
use delivery_core::store::{Catalog, CatalogEditor, FileRow, Files, PostQuery, Posts, ProductNames, StoreError};

port! {
    impl<S: ProductNames> ProductNames by whole {
        product_named(source: &Source, name: &RefName) -> Option<ProductId>;
    }
}

port! {
    impl<S: Catalog> Catalog by whole {
        product(id: ProductId) -> Option<Arc<Product>>;
        products() -> Arc<Vec<Listing>>;
    }
}

port! {
    impl<S: CatalogEditor> CatalogEditor by whole {
        add_product(product: NewProduct, edit: Edit) -> Arc<Product>;
        product_called(host_ref: &HostRef) -> Option<Arc<Product>>;
        archived_products() -> Vec<Listing>;
        update_product(id: ProductId, product: NewProduct, was: Option<&NewProduct>, edit: Edit) -> Option<Arc<Product>>;
        set_archived(id: ProductId, archived: bool, edit: Edit) -> Option<Arc<Product>>;
    }
    and {
        fn files(&self) -> Option<&dyn Files> {
            self.inner.files().map(|_| self as _)
        }
    }
}

impl<S: CatalogEditor> Faulty<S> {
    fn inner_files(&self) -> Result<&dyn Files, StoreError> {
        self.inner.files().ok_or(StoreError::Unsupported)
    }
}

port! {
    impl<S: CatalogEditor> Files by inner_files {
        put_file(product: ProductId, file: File, edit: Edit) -> Option<bool>;
        delete_file(product: ProductId, name: &FileName, edit: Edit) -> bool;
        file(product: ProductId, object: ObjectName) -> Option<File>;
        file_rows(after: Option<ObjectName>, limit: usize) -> Vec<FileRow>;
        forget_files(objects: &[ObjectName]) -> ();
    }
}

port! {
    impl<S: Posts> Posts by whole {
        posts(query: &PostQuery) -> Arc<Vec<Post>>;
        add_post(post: NewPost, edit: Edit) -> Post;
        post(id: PostId) -> Option<Post>;
        update_post(id: PostId, post: NewPost, was: Option<&NewPost>, edit: Edit) -> Option<Post>;
        delete_post(id: PostId, edit: Edit) -> bool;
    }
}
