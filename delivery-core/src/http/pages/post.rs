//! Listing, adding, editing and deleting posts.

use chrono::{DateTime, TimeDelta, Utc};
use minijinja::{Value, context};

use super::form::{Fault, Form, digest, said};
use super::shown::{desk, next, parameter, preview, time};
use super::{Answering, ApiError, PageRequest, SignedIn, base};
use crate::delivery::Delivery;
use crate::http::Reply;
use crate::post::{Category, NewPost, Post, PostId};
use crate::store::{PostQuery, StoreError};
use crate::terms::NEVER;
use crate::text::Invalid;

/// The maximum number of posts on a page of the list.
const NEWEST: usize = 100;

pub(super) fn list(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        // By default the list includes posts that will be published in the future.
        let until =
            parameter::<i64>(&visit, "before")?.map(|at| DateTime::from_timestamp(at, 0).ok_or(ApiError::MALFORMED));
        let until = until.transpose()?.unwrap_or(NEVER).min(NEVER);
        let found = visit.delivery.posts(&PostQuery { category: None, until, limit: NEWEST }).await?;
        let path = format!("{}/desk/posts", base(visit.delivery));
        let next = next(&path, &[], older(visit.delivery, &found, until).await?.map(|at| at.timestamp().to_string()));
        let post = |it: &Post| {
            let (id, at) = (it.id().get(), time(it.published_at()));
            context! { id, title => it.title(), category => it.category().as_str(), published_at => at }
        };
        let posts: Vec<Value> = found.iter().map(post).collect();
        visit.page("posts.html", context! { posts, next, ..desk(&visit, &seller, "/desk/posts") })
    })
}

/// Returns the time from which the next page lists posts; `None` if there are no older posts. That page starts at the
/// second of the last post on this page, because other posts of that second may follow. A store ends a list at 1 MiB of
/// content, so a page may have any number of posts.
async fn older(delivery: &Delivery, found: &[Post], until: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, StoreError> {
    let Some(last) = found.last().map(Post::published_at) else { return Ok(None) };
    let before = last - TimeDelta::seconds(1);
    let are_older = delivery.posts(&PostQuery { category: None, until: before, limit: 1 }).await?;
    // A page with the posts of a single second would lead to itself.
    let from =
        if last < until && found.first().is_some_and(|first| first.published_at() != last) { last } else { before };
    Ok((!are_older.is_empty()).then_some(from))
}

/// The values in the form.
#[derive(Default)]
struct Typed {
    id: String,
    title: String,
    category: String,
    content: String,
    preview: bool,
    /// The [`digest`] of the post when the form was opened.
    seen: String,
}

impl Typed {
    fn value(&self) -> Value {
        let Self { id, title, category, content, seen, .. } = self;
        context! {
            id => id.clone(), title => title.clone(), category => category.clone(), content => content.clone(),
            seen => seen.clone(),
        }
    }
}

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        if let Some(form) = &visit.form {
            return submitted(&visit, &seller, form).await;
        }
        let typed = match parameter::<i64>(&visit, "id")? {
            Some(id) => {
                let post = found(&visit, &seller, PostId::new(id).map_err(|_| ApiError::NOT_FOUND)?).await?;
                Typed {
                    id: id.to_string(),
                    title: post.title().to_owned(),
                    category: post.category().as_str().to_owned(),
                    content: post.content().to_owned(),
                    preview: false,
                    seen: shown(&visit, &post),
                }
            }
            None => Typed::default(),
        };
        page(&visit, &seller, &typed, None).await
    })
}

async fn found(visit: &PageRequest<'_>, seller: &SignedIn, id: PostId) -> Result<Post, ApiError> {
    visit.delivery.desk(&seller.actor).post(id).await?.ok_or(ApiError::NOT_FOUND)
}

async fn submitted(visit: &PageRequest<'_>, seller: &SignedIn, form: &Form) -> Result<Reply, ApiError> {
    let text = |name| form.text(name).to_owned();
    let typed = Typed {
        id: text("id"),
        title: text("title"),
        category: text("category"),
        content: text("content"),
        preview: form.text("do") == "preview",
        seen: text("seen"),
    };
    let id = match form.given("id") {
        Some(id) => Some(id.parse().ok().and_then(|id| PostId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?),
        None => None,
    };
    let published_at = match id {
        Some(id) => found(visit, seller, id).await?.published_at(),
        None => crate::clock::whole_seconds(visit.delivery.inner.clock.now()),
    };
    let wrong =
        |field, called: &'static str| move |expected: Invalid| Fault::new(field, format!("{called} {expected}."));
    let facts = || {
        if typed.content.trim().is_empty() {
            return Err(Fault::new("content", "The content is missing."));
        }
        let category = Category::new(typed.category.trim()).map_err(wrong("category", "The category"))?;
        let facts = NewPost::new(typed.title.trim(), category, published_at).map_err(wrong("title", "The title"))?;
        facts.content(typed.content.as_str()).map_err(wrong("content", "The content"))
    };
    let facts = match facts() {
        Ok(facts) => facts,
        Err(fault) => return page(visit, seller, &typed, Some(&fault)).await,
    };
    if typed.preview {
        return page(visit, seller, &typed, None).await;
    }
    let saved = match id {
        Some(id) => save(visit, seller, (id, &typed.seen), &facts).await,
        None => visit.delivery.desk(&seller.actor).add_post_once(facts).await.map(Some),
    };
    match saved {
        Ok(Some(post)) => Ok(visit.go_to(&format!("/desk/post?id={}&done=saved", post.id().get()))),
        Ok(None) => Err(ApiError::NOT_FOUND),
        Err(StoreError::Conflict { .. }) => {
            let fault = "Somebody else changed this post since you opened it. Open it again, and repeat your change.";
            page(visit, seller, &typed, Some(&Fault::new("", fault))).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Saves the values of the form, unless somebody else has changed the post since the form was opened. A post that
/// already has these values is no conflict.
async fn save(
    visit: &PageRequest<'_>,
    seller: &SignedIn,
    (id, seen): (PostId, &str),
    facts: &NewPost,
) -> Result<Option<Post>, StoreError> {
    let seller_desk = visit.delivery.desk(&seller.actor);
    let revised = seller_desk.revise_post(id, |post| {
        let facts = facts.clone().published_at(post.published_at());
        let is_known = seen.is_empty() || *post.facts() == facts || shown(visit, post) == seen;
        if is_known { Ok(facts) } else { Err(()) }
    });
    revised.await?.map_err(|()| StoreError::Conflict { source: None })
}

/// Returns the [`digest`] of the values that the form shows for a post.
fn shown(visit: &PageRequest<'_>, post: &Post) -> String {
    digest(visit, &[post.title(), post.category().as_str(), post.content()])
}

async fn page(
    visit: &PageRequest<'_>,
    seller: &SignedIn,
    typed: &Typed,
    fault: Option<&Fault>,
) -> Result<Reply, ApiError> {
    let preview = if typed.preview { Some(preview(visit.delivery, &typed.content).await?) } else { None };
    let post = typed.value();
    visit.page("post.html", context! { post, preview, ..said(fault, desk(visit, seller, "/desk/posts")) })
}

pub(super) fn delete(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        if let Some(form) = &visit.form {
            let id = form.text("id").parse().ok().and_then(|id| PostId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?;
            let is_deleted = visit.delivery.desk(&seller.actor).delete_post(id).await?;
            return if is_deleted { Ok(visit.go_to("/desk/posts?done=deleted")) } else { Err(ApiError::NOT_FOUND) };
        }
        let id = parameter::<i64>(&visit, "id")?.and_then(|id| PostId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?;
        let post = found(&visit, &seller, id).await?;
        let values = context! {
            title => "Delete this post",
            sentence => "It is gone for good.",
            button => "Delete it",
            fields => Vec::<Value>::new(),
            about => [("Post", post.title().to_owned())],
            action => "/desk/post/delete",
            hidden => [("id", id.get().to_string())],
            back => format!("/desk/post?id={}", id.get()),
            is_dangerous => true,
            ..desk(&visit, &seller, "/desk/posts")
        };
        visit.page("confirm.html", values)
    })
}
