//! Listing, adding, editing and deleting posts.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use minijinja::{Value, context};

use super::form::{Form, FormError, digest, is_digest, said};
use super::frame::desk;
use super::lists::{Chosen, links, parameter};
use super::shown::{preview, time};
use super::{ApiError, PageRequest, SignedIn};
use crate::http::Reply;
use crate::http::parameter::BEFORE;
use crate::post::{NewPost, Post, PostId};
use crate::store::{PostQuery, StoreError};
use crate::terms::NEVER;

/// The maximum number of posts that the list shows at once.
const NEWEST: usize = 100;

pub(super) async fn list(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    // If the URL has no position in the list, begin with the posts that are not published yet.
    let place = parameter::<Place>(&request, BEFORE.name)?;
    let posts = |place: Option<Place>, limit| {
        let (until, before) = place.map_or((NEVER, None), |Place(until, before)| (until, Some(before)));
        let query = PostQuery { category: None, until, before, limit };
        async move { request.delivery.posts(&query).await }
    };
    let found = posts(place, NEWEST).await?;
    // The number of posts does not tell whether more follow, because a store also ends a list at 1 MiB of content.
    let end = found.last().map(|post| Place(post.published_at(), post.id()));
    let next = if end.is_some() && !posts(end, 1).await?.is_empty() { end } else { None };
    let links = links(&request, "/desk/posts", &Chosen::new(), next.map(|next| next.to_string()), &[]);
    let post = |it: &Post| {
        let (id, at) = (it.id().get(), time(it.published_at()));
        context! { id, title => it.title(), category => it.category().as_str(), published_at => at }
    };
    let posts: Vec<Value> = found.iter().map(post).collect();
    request.page("posts.html", context! { posts, links, ..desk(&request, &seller, "/desk/posts") })
}

/// A position in the list of posts: just after the post that was published at this time and has this number. In URLs,
/// it is written as the seconds since 1970 and the number.
#[derive(Clone, Copy)]
struct Place(DateTime<Utc>, PostId);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.timestamp(), self.1.get())
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (seconds, id) = text.split_once('.').ok_or(())?;
        let until = seconds.parse().ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0)).ok_or(())?;
        let id = id.parse().ok().and_then(|id| PostId::new(id).ok()).ok_or(())?;
        Ok(Self(until.min(NEVER), id))
    }
}

/// Returns the values that the form shows for a post. The field `seen` contains a [`digest`] of these values, by which
/// `save` notices that somebody else has changed the post.
fn fields(request: &PageRequest<'_>, post: &Post) -> Form {
    let [title, category, content] = shown(post);
    Form::of(
        [("title", title), ("category", category), ("content", content)].map(|(name, value)| (name, value.to_owned())),
    )
    .with("id", post.id().get().to_string())
    .with("seen", digest(request, &shown(post)))
}

fn shown(post: &Post) -> [&str; 3] {
    [post.title(), post.category().as_str(), post.content()]
}

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    if let Some(form) = &request.form {
        return submitted(&request, &seller, form).await;
    }
    let typed = match parameter::<i64>(&request, "id")? {
        Some(id) => {
            fields(&request, &found(&request, &seller, PostId::new(id).map_err(|_| ApiError::NOT_FOUND)?).await?)
        }
        None => Form::of([]),
    };
    page(&request, &seller, &typed, None).await
}

async fn found(request: &PageRequest<'_>, seller: &SignedIn, id: PostId) -> Result<Post, ApiError> {
    request.delivery.desk(&seller.actor).post(id).await?.ok_or(ApiError::NOT_FOUND)
}

async fn submitted(request: &PageRequest<'_>, seller: &SignedIn, form: &Form) -> Result<Reply, ApiError> {
    let id = match form.given("id") {
        Some(id) => Some(id.parse().ok().and_then(|id| PostId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?),
        None => None,
    };
    let published_at = match id {
        Some(id) => found(request, seller, id).await?.published_at(),
        None => crate::clock::whole_seconds(request.delivery.inner.clock.now()),
    };
    let facts = || {
        if form.given("content").is_none() {
            return Err(FormError::new("content", "The content is missing."));
        }
        let category = form.text("category").trim().parse().map_err(FormError::of("category", "The category"))?;
        let facts = NewPost::new(form.text("title").trim(), category, published_at);
        let facts = facts.map_err(FormError::of("title", "The title"))?;
        facts.content(form.text("content")).map_err(FormError::of("content", "The content"))
    };
    let facts = match facts() {
        Ok(facts) => facts,
        Err(fault) => return page(request, seller, form, Some(&fault)).await,
    };
    if form.text("do") == "preview" {
        return page(request, seller, form, None).await;
    }
    let saved = match id {
        Some(id) => save(request, seller, (id, form.text("seen")), &facts).await,
        None => request.delivery.desk(&seller.actor).add_post_once(facts).await.map(Some),
    };
    match saved {
        Ok(Some(post)) => Ok(request.go_to(&format!("/desk/post?id={}&done=posted", post.id().get()))),
        Ok(None) => Err(ApiError::NOT_FOUND),
        Err(StoreError::Conflict { .. }) => {
            let fault = "Somebody else changed this post since you opened it. Open it again, and repeat your change.";
            page(request, seller, form, Some(&FormError::new("", fault))).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Saves the values of the form. If somebody else has changed the post since the form was opened, nothing is saved, and
/// the seller sees an error. There is no error if the post already has the values of the form.
async fn save(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    (id, seen): (PostId, &str),
    facts: &NewPost,
) -> Result<Option<Post>, StoreError> {
    let seller_desk = request.delivery.desk(&seller.actor);
    let revised = seller_desk.revise_post(id, |post| {
        let facts = facts.clone().published_at(post.published_at());
        let is_known = seen.is_empty() || *post.facts() == facts || is_digest(request, &shown(post), seen);
        if is_known { Ok(facts) } else { Err(()) }
    });
    revised.await?.map_err(|()| StoreError::Conflict { source: None })
}

async fn page(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    form: &Form,
    fault: Option<&FormError>,
) -> Result<Reply, ApiError> {
    let preview = preview(request.delivery, form, fault).await?;
    let values = context! { post => form.values(&["id", "seen", "title", "category", "content"]), preview, ..said(fault, desk(request, seller, "/desk/posts")) };
    Ok(request.page_with_forms("post.html", values)?.with_pictures())
}

pub(super) async fn delete(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    if let Some(form) = &request.form {
        let id = form.text("id").parse().ok().and_then(|id| PostId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?;
        // It is not an error if the post is already gone, because the form may have been sent twice.
        request.delivery.desk(&seller.actor).delete_post(id).await?;
        return Ok(request.go_to("/desk/posts?done=deleted"));
    }
    let id = parameter::<i64>(&request, "id")?.and_then(|id| PostId::new(id).ok()).ok_or(ApiError::NOT_FOUND)?;
    let post = found(&request, &seller, id).await?;
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
        ..desk(&request, &seller, "/desk/posts")
    };
    request.page("confirm.html", values)
}
