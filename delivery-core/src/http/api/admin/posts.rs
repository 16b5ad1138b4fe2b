//! The endpoints with which the seller adds, changes and deletes posts.

use super::{command, done, timestamp_of};
use crate::delivery::Delivery;
use crate::http::Reply;
use crate::http::api::wire;
use crate::http::describe::{Body, CATEGORY, CONTENT, Field, NUMBER, PUBLISHED_AT, TITLE, shape};
use crate::http::error::ApiError;
use crate::http::fields::{Fault, Fields};
use crate::http::proof::Seller;
use crate::http::row::{Docs, Row};
use crate::post::{NewPost, Post, PostId};
use crate::text::Invalid;

pub(in crate::http) static ADD_POST: Row = command(
    "/api/admin/post",
    |delivery, seller, fields| Box::pin(add_post(delivery, seller, fields)),
    Docs {
        id: "addPost",
        summary: "Add a post",
        description: "The post is listed from `published_at` on.",
        body: Some(Body {
            name: "NewPost",
            about: "A post.",
            fields: &[TITLE.required(), CATEGORY.required(), CONTENT.required(), PUBLISHED_AT],
            example: r#"{"title":"News","category":"releases","content":"A new chapter."}"#,
        }),
        success: shape!(wire::PostAdded<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static UPDATE_POST: Row = command(
    "/api/admin/post/update",
    |delivery, seller, fields| Box::pin(update_post(delivery, seller, fields)),
    Docs {
        id: "updatePost",
        summary: "Change a post",
        description: "A field that is left out stays as it is.",
        body: Some(Body {
            name: "PostUpdate",
            about: "The id of a post, and the fields to change.",
            fields: &[
                NUMBER,
                TITLE,
                CATEGORY,
                CONTENT,
                PUBLISHED_AT.about("The time from which the post is listed, from 1970 to 9999."),
            ],
            example: r#"{"id":1,"title":"Two new chapters"}"#,
        }),
        success: shape!(wire::PostAdded<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static DELETE_POST: Row = command(
    "/api/admin/post/delete",
    |delivery, seller, fields| Box::pin(delete_post(delivery, seller, fields)),
    Docs {
        id: "deletePost",
        summary: "Delete a post",
        description: "Deletes the post. A deleted post cannot be restored.",
        body: Some(Body { name: "ThePost", about: "A post.", fields: &[NUMBER], example: r#"{"id":1}"# }),
        success: shape!(super::wire::Done),
        ..Docs::SELLER
    },
);

async fn add_post(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let checked = |field: Field| move |expected: Invalid| Fault::malformed(field.name, expected);
    let title = fields.required_text(TITLE)?;
    let category = fields.parsed(CATEGORY)?.ok_or_else(|| Fault::missing(CATEGORY.name))?;
    let published_at = timestamp_of(&fields, PUBLISHED_AT)?.unwrap_or_else(|| delivery.inner.clock.now());
    let post = NewPost::new(title, category, published_at).map_err(checked(TITLE))?;
    let post = post.content(fields.required_text(CONTENT)?).map_err(checked(CONTENT))?;
    let added = delivery.desk(seller.actor()).add_post(post).await?;
    Ok(Reply::json(&wire::PostAdded::of(&added)))
}

async fn update_post(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let checked = |field: Field| move |expected: Invalid| Fault::malformed(field.name, expected);
    let id = fields.integer(NUMBER, PostId::new)?.ok_or_else(|| Fault::missing(NUMBER.name))?;
    let revise = |post: &Post| -> Result<_, Fault> {
        let mut facts = post.facts().clone();
        if let Some(title) = fields.text_of(TITLE)? {
            facts = facts.title(title).map_err(checked(TITLE))?;
        }
        if let Some(category) = fields.parsed(CATEGORY)? {
            facts = facts.category(category);
        }
        if let Some(content) = fields.text_of(CONTENT)? {
            facts = facts.content(content).map_err(checked(CONTENT))?;
        }
        if let Some(at) = timestamp_of(&fields, PUBLISHED_AT)? {
            facts = facts.published_at(at);
        }
        Ok(facts)
    };
    let updated = delivery.desk(seller.actor()).revise_post(id, revise).await??.ok_or(ApiError::NOT_FOUND)?;
    Ok(Reply::json(&wire::PostAdded::of(&updated)))
}

async fn delete_post(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let id = fields.integer(NUMBER, PostId::new)?.ok_or_else(|| Fault::missing(NUMBER.name))?;
    done(delivery.desk(seller.actor()).delete_post(id).await?)
}
