//! Products and posts in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use chrono::{DateTime, Utc};
use delivery_core::HostRef;
use delivery_core::ledger::{Action, Edit};
use delivery_core::order::Source;
use delivery_core::post::{NewPost, Post, PostId};
use delivery_core::product::{
    File, FileName, Listing, MOST_FILES, NewProduct, ObjectName, Product, ProductId, RefName,
};
use delivery_core::store::{Catalog, CatalogEditor, FileRow, Files, PostQuery, Posts, ProductNames, StoreError};

/// The maximum size of the content of all posts in one list, in bytes: 1 MiB.
const MOST_CONTENT: usize = 1 << 20;

/// A post's id, and how often the post was changed.
type PostVersion = (PostId, i64);

#[derive(Default)]
pub(super) struct Shop {
    products: BTreeMap<ProductId, Arc<Product>>,
    files: BTreeMap<ObjectName, StoredFile>,
    posts: BTreeMap<PostId, (Post, i64)>,
    /// The id of the last post that was added, even if it has been deleted.
    last_post: i64,
    /// The lists that were requested, each with the versions of its posts.
    lists: Vec<(Vec<PostVersion>, Arc<Vec<Post>>)>,
}

#[derive(Debug, Clone)]
struct StoredFile {
    product: ProductId,
    file: File,
    /// When the file was replaced or deleted; `None` if it is current.
    ended_at: Option<DateTime<Utc>>,
}

impl Shop {
    /// Marks the product's current file with this name as a former one. Returns whether there was such a file.
    fn end_file(&mut self, product: ProductId, folded: &str, at: DateTime<Utc>) -> bool {
        let mut current = self.files.values_mut().filter(|file| file.product == product && file.ended_at.is_none());
        match current.find(|stored| stored.file.name.folded() == folded) {
            Some(stored) => {
                stored.ended_at = Some(at);
                true
            }
            None => false,
        }
    }

    /// Updates the list of current files in the product.
    fn list_files(&mut self, id: ProductId) {
        let current = self.files.values().filter(|stored| stored.product == id && stored.ended_at.is_none());
        let mut files: Vec<File> = current.map(|stored| stored.file.clone()).collect();
        files.sort_by_key(|file| file.name.folded());
        self.replace(id, |product| product.clone().with_files(files));
    }

    /// Returns the product to which the host application gave this name.
    fn called(&self, host_ref: &HostRef) -> Option<&Arc<Product>> {
        self.products.values().find(|product| product.host_ref() == Some(host_ref))
    }

    /// Returns [`StoreError::Refused`] if another product already has one of the product's names.
    fn check(&self, product: &Product) -> Result<(), StoreError> {
        match product.host_ref().and_then(|host_ref| self.called(host_ref)) {
            Some(other) if other.id() != product.id() => return Err(StoreError::Refused { source: None }),
            _ => {}
        }
        let is_taken = |(source, name): (&Source, &RefName)| {
            self.named(source, name).is_some_and(|other| other.id() != product.id())
        };
        if product.refs().iter().any(is_taken) { Err(StoreError::Refused { source: None }) } else { Ok(()) }
    }

    /// Returns the product to which the platform gave this name.
    fn named(&self, source: &Source, name: &RefName) -> Option<&Arc<Product>> {
        self.products.values().find(|product| product.refs().iter().any(|it| it == (source, name)))
    }

    fn replace(&mut self, id: ProductId, with: impl FnOnce(&Product) -> Product) -> Option<Arc<Product>> {
        let product = self.products.get_mut(&id)?;
        *product = Arc::new(with(product));
        Some(product.clone())
    }
}

#[async_trait]
impl Catalog for MemoryStore {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        Ok(self.state().shop.products.get(&id).cloned())
    }

    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        let state = self.state();
        let sold = state.shop.products.values().filter(|product| !product.is_archived());
        Ok(Arc::new(sold.map(|product| Listing::of(product)).collect()))
    }
}

#[async_trait]
impl CatalogEditor for MemoryStore {
    async fn add_product(&self, product: NewProduct, edit: Edit) -> Result<Arc<Product>, StoreError> {
        let state = &mut *self.state();
        let shop = &mut state.shop;
        let id =
            ProductId::new(next_number(shop.products.len())).map_err(|_| StoreError::corrupt("product numbers"))?;
        let product = Arc::new(Product::new(id, product));
        shop.check(&product)?;
        shop.products.insert(id, product.clone());
        state.log((None, Some(id)), Action::ProductAdded, edit);
        Ok(product)
    }

    async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError> {
        Ok(self.state().shop.called(host_ref).cloned())
    }

    async fn archived_products(&self) -> Result<Vec<Listing>, StoreError> {
        let state = self.state();
        let archived = state.shop.products.values().filter(|product| product.is_archived());
        Ok(archived.map(|product| Listing::of(product)).collect())
    }

    async fn update_product(
        &self,
        id: ProductId,
        facts: NewProduct,
        was: Option<&NewProduct>,
        edit: Edit,
    ) -> Result<Option<Arc<Product>>, StoreError> {
        let state = &mut *self.state();
        unchanged(state.shop.products.get(&id).map(|product| product.facts()), was)?;
        let new = Product::new(id, facts);
        state.shop.check(&new)?;
        let updated =
            state.shop.replace(id, |product| new.archived(product.is_archived()).with_files(product.files().to_vec()));
        if updated.is_some() {
            state.log((None, Some(id)), Action::ProductUpdated, edit);
        }
        Ok(updated)
    }

    async fn set_archived(
        &self,
        id: ProductId,
        archived: bool,
        edit: Edit,
    ) -> Result<Option<Arc<Product>>, StoreError> {
        let state = &mut *self.state();
        let was_archived = state.shop.products.get(&id).is_some_and(|product| product.is_archived());
        let changed = state.shop.replace(id, |product| product.clone().archived(archived));
        if changed.is_some() && was_archived != archived {
            let action = if archived { Action::ProductArchived } else { Action::ProductRestored };
            state.log((None, Some(id)), action, edit);
        }
        Ok(changed)
    }

    fn files(&self) -> Option<&dyn Files> {
        Some(self)
    }
}

#[async_trait]
impl Files for MemoryStore {
    async fn put_file(&self, product: ProductId, file: File, edit: Edit) -> Result<Option<bool>, StoreError> {
        let state = &mut *self.state();
        let folded = file.name.folded();
        let Some(found) = state.shop.products.get(&product) else { return Ok(None) };
        if found.files().iter().filter(|other| other.name.folded() != folded).count() >= MOST_FILES {
            return Err(StoreError::Refused { source: None });
        }
        let is_replaced = state.shop.end_file(product, &folded, edit.at);
        let action = if is_replaced { Action::FileReplaced } else { Action::FileAdded };
        state.log((None, Some(product)), action, of_file(&file.name, edit));
        state.shop.files.insert(file.object, StoredFile { product, file, ended_at: None });
        state.shop.list_files(product);
        Ok(Some(is_replaced))
    }

    async fn delete_file(&self, product: ProductId, name: &FileName, edit: Edit) -> Result<bool, StoreError> {
        let state = &mut *self.state();
        let is_deleted = state.shop.end_file(product, &name.folded(), edit.at);
        if is_deleted {
            state.log((None, Some(product)), Action::FileDeleted, of_file(name, edit));
            state.shop.list_files(product);
        }
        Ok(is_deleted)
    }

    async fn file(&self, product: ProductId, object: ObjectName) -> Result<Option<File>, StoreError> {
        let state = self.state();
        let stored = state.shop.files.get(&object).filter(|stored| stored.product == product);
        Ok(stored.map(|stored| stored.file.clone()))
    }

    async fn file_rows(&self, after: Option<ObjectName>, limit: usize) -> Result<Vec<FileRow>, StoreError> {
        let state = self.state();
        let rows = state.shop.files.iter().filter(|(object, _)| after.is_none_or(|after| **object > after));
        let rows = rows.map(|(object, stored)| FileRow { object: *object, ended_at: stored.ended_at });
        Ok(rows.take(limit).collect())
    }

    async fn forget_files(&self, objects: &[ObjectName]) -> Result<(), StoreError> {
        let state = &mut *self.state();
        state.shop.files.retain(|object, stored| stored.ended_at.is_none() || !objects.contains(object));
        Ok(())
    }
}

#[async_trait]
impl ProductNames for MemoryStore {
    async fn product_named(&self, source: &Source, name: &RefName) -> Result<Option<ProductId>, StoreError> {
        Ok(self.state().shop.named(source, name).map(|product| product.id()))
    }
}

#[async_trait]
impl Posts for MemoryStore {
    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        let state = &mut *self.state();
        let matches = |(post, _): &&(Post, i64)| {
            let is_before = query.before.is_none_or(|before| post.id() < before);
            (post.published_at() < query.until || post.published_at() == query.until && is_before)
                && query.category.as_ref().is_none_or(|category| category == post.category())
        };
        let mut posts: Vec<&(Post, i64)> = state.shop.posts.values().filter(matches).collect();
        posts.sort_by_key(|(post, _)| std::cmp::Reverse((post.published_at(), post.id())));
        posts.truncate(query.limit);
        let mut bytes = 0;
        let lengths = posts.iter().map(|(post, _)| post.content().len());
        let fitting = lengths.take_while(|length| {
            bytes += length;
            bytes <= MOST_CONTENT
        });
        posts.truncate(fitting.count());
        let versions: Vec<PostVersion> = posts.iter().map(|(post, version)| (post.id(), *version)).collect();
        if let Some((_, list)) = state.shop.lists.iter().find(|(listed, _)| *listed == versions) {
            return Ok(list.clone());
        }
        let list = Arc::new(posts.into_iter().map(|(post, _)| post.clone()).collect::<Vec<_>>());
        state.shop.lists.push((versions, list.clone()));
        Ok(list)
    }

    async fn add_post(&self, post: NewPost, edit: Edit) -> Result<Post, StoreError> {
        let state = &mut *self.state();
        state.shop.last_post += 1;
        let id = PostId::new(state.shop.last_post).map_err(|_| StoreError::corrupt("post numbers"))?;
        let post = Post::new(id, post);
        state.shop.posts.insert(id, (post.clone(), 0));
        state.log((None, None), Action::PostAdded, of_post(id, edit));
        Ok(post)
    }

    async fn post(&self, id: PostId) -> Result<Option<Post>, StoreError> {
        Ok(self.state().shop.posts.get(&id).map(|(post, _)| post.clone()))
    }

    async fn update_post(
        &self,
        id: PostId,
        post: NewPost,
        was: Option<&NewPost>,
        edit: Edit,
    ) -> Result<Option<Post>, StoreError> {
        let state = &mut *self.state();
        let Some((stored, version)) = state.shop.posts.get_mut(&id) else { return Ok(None) };
        unchanged(Some(stored.facts()), was)?;
        (*stored, *version) = (Post::new(id, post), *version + 1);
        let updated = stored.clone();
        state.log((None, None), Action::PostUpdated, of_post(id, edit));
        Ok(Some(updated))
    }

    async fn delete_post(&self, id: PostId, edit: Edit) -> Result<bool, StoreError> {
        let state = &mut *self.state();
        let deleted = state.shop.posts.remove(&id).is_some();
        if deleted {
            state.log((None, None), Action::PostDeleted, of_post(id, edit));
        }
        Ok(deleted)
    }
}

/// Fails with a conflict if the stored value differs from `was`, the one that the caller has read.
fn unchanged<T: PartialEq>(is: Option<&T>, was: Option<&T>) -> Result<(), StoreError> {
    let is_other = is.zip(was).is_some_and(|(is, was)| is != was);
    if is_other { Err(StoreError::Conflict { source: None }) } else { Ok(()) }
}

fn of_file(name: &FileName, edit: Edit) -> Edit {
    Edit { detail: Some(name.to_string()), ..edit }
}

fn of_post(id: PostId, edit: Edit) -> Edit {
    Edit { detail: Some(format!("post {}", id.get())), ..edit }
}

fn next_number(count: usize) -> i64 {
    i64::try_from(count).map_or(i64::MAX, |count| count.saturating_add(1))
}
