//! Products and posts in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use crate::HostRef;
use crate::post::{NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Product, ProductId};
use crate::store::cache::{PostCache, fitting};
use crate::store::{Catalog, CatalogEditor, PostQuery, Posts, StoreError};

#[derive(Default)]
pub(super) struct Shop {
    products: BTreeMap<ProductId, Arc<Product>>,
    posts: Vec<Post>,
    lists: PostCache,
}

impl Shop {
    /// The product that the host calls so.
    fn called(&self, host_ref: &HostRef) -> Option<&Arc<Product>> {
        self.products.values().find(|product| product.host_ref() == Some(host_ref))
    }

    /// Refuses a name that another product has.
    fn check(&self, product: &Product) -> Result<(), StoreError> {
        match product.host_ref().and_then(|host_ref| self.called(host_ref)) {
            Some(other) if other.id() != product.id() => Err(StoreError::Refused { source: None }),
            _ => Ok(()),
        }
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
    async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        let shop = &mut self.state().shop;
        let id =
            ProductId::new(next_number(shop.products.len())).map_err(|_| StoreError::corrupt("product numbers"))?;
        let product = Arc::new(Product::new(id, product));
        shop.check(&product)?;
        shop.products.insert(id, product.clone());
        Ok(product)
    }

    async fn product_called(&self, host_ref: &HostRef) -> Result<Option<Arc<Product>>, StoreError> {
        Ok(self.state().shop.called(host_ref).cloned())
    }

    async fn update_product(&self, id: ProductId, facts: NewProduct) -> Result<Option<Arc<Product>>, StoreError> {
        let shop = &mut self.state().shop;
        let new = Product::new(id, facts);
        shop.check(&new)?;
        Ok(shop.replace(id, |product| new.archived(product.is_archived())))
    }

    async fn archive_product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        Ok(self.state().shop.replace(id, |product| product.clone().archived(true)))
    }
}

#[async_trait]
impl Posts for MemoryStore {
    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        let state = self.state();
        let matches = |post: &&Post| {
            post.published_at() <= query.until
                && query.category.as_ref().is_none_or(|category| category == post.category())
        };
        let mut posts: Vec<&Post> = state.shop.posts.iter().filter(matches).collect();
        posts.sort_by_key(|post| std::cmp::Reverse((post.published_at(), post.id())));
        posts.truncate(query.limit);
        posts.truncate(fitting(posts.iter().map(|post| post.content().len())));
        let ids: Vec<PostId> = posts.iter().map(|post| post.id()).collect();
        let lists = &state.shop.lists;
        Ok(lists.get(&ids).unwrap_or_else(|| lists.keep(posts.into_iter().cloned().collect())))
    }

    async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        let shop = &mut self.state().shop;
        let id = PostId::new(next_number(shop.posts.len())).map_err(|_| StoreError::corrupt("post numbers"))?;
        let post = Post::new(id, post);
        shop.posts.push(post.clone());
        Ok(post)
    }
}

fn next_number(count: usize) -> i64 {
    i64::try_from(count).map_or(i64::MAX, |count| count.saturating_add(1))
}
