//! The types of replies about posts.

use serde::Serialize;

use crate::clock::timestamp;
use crate::post::Post;

/// Posts, newest first.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Posts<'a> {
    posts: Vec<Posted<'a>>,
}

impl<'a> Posts<'a> {
    pub(in crate::http) fn of(posts: &'a [Post]) -> Self {
        Self { posts: posts.iter().map(Posted::of).collect() }
    }
}

/// The post that was added or changed, as it is now.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct PostAdded<'a> {
    success: bool,
    post: Posted<'a>,
}

impl<'a> PostAdded<'a> {
    pub(in crate::http) fn of(post: &'a Post) -> Self {
        Self { success: true, post: Posted::of(post) }
    }
}

/// A post.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct Posted<'a> {
    id: i64,
    title: &'a str,
    category: &'a str,
    content: &'a str,
    /// UTC, in whole seconds.
    #[cfg_attr(test, schema(format = DateTime))]
    published_at: String,
}

impl<'a> Posted<'a> {
    fn of(post: &'a Post) -> Self {
        Self {
            id: post.id().get(),
            title: post.title(),
            category: post.category().as_str(),
            content: post.content(),
            published_at: timestamp(post.published_at()),
        }
    }
}
