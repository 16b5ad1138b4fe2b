//! Posts: listing, adding, editing and deleting them.

use minijinja::{Value, context};

use super::form::Form;
use super::shown::{desk, parameter, time};
use super::{Answering, SignedIn, Trouble, Visit};
use crate::http::Reply;
use crate::look::rendered;
use crate::post::{Category, NewPost, Post, PostId};
use crate::store::PostQuery;
use crate::terms::NEVER;
use crate::text::Invalid;

/// How many posts are listed.
const NEWEST: usize = 100;

pub(super) fn list(visit: Visit<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        // Those that are to be published later too.
        let found = visit.delivery.posts(&PostQuery { category: None, until: NEVER, limit: NEWEST }).await?;
        let post = |it: &Post| {
            let (id, at) = (it.id().get(), time(it.published_at()));
            context! { id, title => it.title(), category => it.category().as_str(), published_at => at }
        };
        let posts: Vec<Value> = found.iter().map(post).collect();
        visit.page("posts.html", context! { posts, ..desk(&visit, &seller, "/desk/posts") })
    })
}

/// What stands in the form.
#[derive(Default)]
struct Typed {
    id: String,
    title: String,
    category: String,
    content: String,
    preview: bool,
}

impl Typed {
    fn value(&self) -> Value {
        let Self { id, title, category, content, .. } = self;
        context! { id => id.clone(), title => title.clone(), category => category.clone(), content => content.clone() }
    }
}

pub(super) fn show(visit: Visit<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        if let Some(form) = &visit.form {
            return submitted(&visit, &seller, form).await;
        }
        let typed = match parameter::<i64>(&visit, "id")? {
            Some(id) => {
                let post = found(&visit, &seller, PostId::new(id).map_err(|_| Trouble::NotFound)?).await?;
                Typed {
                    id: id.to_string(),
                    title: post.title().to_owned(),
                    category: post.category().as_str().to_owned(),
                    content: post.content().to_owned(),
                    preview: false,
                }
            }
            None => Typed::default(),
        };
        page(&visit, &seller, &typed, None)
    })
}

async fn found(visit: &Visit<'_>, seller: &SignedIn, id: PostId) -> Result<Post, Trouble> {
    visit.delivery.desk(&seller.actor).post(id).await?.ok_or(Trouble::NotFound)
}

async fn submitted(visit: &Visit<'_>, seller: &SignedIn, form: &Form) -> Result<Reply, Trouble> {
    let text = |name| form.text(name).to_owned();
    let preview = form.text("do") == "preview";
    let typed =
        Typed { id: text("id"), title: text("title"), category: text("category"), content: text("content"), preview };
    let id = match form.given("id") {
        Some(id) => Some(id.parse().ok().and_then(|id| PostId::new(id).ok()).ok_or(Trouble::NotFound)?),
        None => None,
    };
    let published_at = match id {
        Some(id) => found(visit, seller, id).await?.published_at(),
        None => crate::clock::whole_seconds(visit.delivery.inner.clock.now()),
    };
    let said = |field: &'static str| move |expected: Invalid| format!("{field} {expected}.");
    let facts = || {
        if typed.content.trim().is_empty() {
            return Err("The content is missing.".to_owned());
        }
        let category = Category::new(typed.category.trim()).map_err(said("The category"))?;
        let facts = NewPost::new(typed.title.trim(), category, published_at).map_err(said("The title"))?;
        facts.content(typed.content.as_str()).map_err(said("The content"))
    };
    let facts = match facts() {
        Ok(facts) => facts,
        Err(fault) => return page(visit, seller, &typed, Some(&fault)),
    };
    if typed.preview {
        return page(visit, seller, &typed, None);
    }
    let seller_desk = visit.delivery.desk(&seller.actor);
    let saved = match id {
        Some(id) => seller_desk.update_post(id, facts).await?.ok_or(Trouble::NotFound)?,
        None => add(visit, seller, facts).await?,
    };
    Ok(visit.go_to(&format!("/desk/post?id={}&done=saved", saved.id().get())))
}

/// Adds a post, unless the form was sent before: the newest one that says the same is the one meant.
async fn add(visit: &Visit<'_>, seller: &SignedIn, facts: NewPost) -> Result<Post, Trouble> {
    let delivery = visit.delivery;
    let _turn = delivery.inner.adding.lock().await;
    let newest = delivery.posts(&PostQuery { category: None, until: NEVER, limit: 1 }).await?;
    let newest = newest.first().filter(|post| *post.facts() == facts.clone().published_at(post.published_at()));
    match newest {
        Some(post) => Ok(post.clone()),
        None => Ok(delivery.desk(&seller.actor).add_post(facts).await?),
    }
}

fn page(visit: &Visit<'_>, seller: &SignedIn, typed: &Typed, fault: Option<&str>) -> Result<Reply, Trouble> {
    let preview = typed.preview.then(|| Value::from_safe_string(rendered(&typed.content)));
    visit.page("post.html", context! { post => typed.value(), preview, fault, ..desk(visit, seller, "/desk/posts") })
}

pub(super) fn delete(visit: Visit<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        if let Some(form) = &visit.form {
            let id = form.text("id").parse().ok().and_then(|id| PostId::new(id).ok()).ok_or(Trouble::NotFound)?;
            let is_deleted = visit.delivery.desk(&seller.actor).delete_post(id).await?;
            return if is_deleted { Ok(visit.go_to("/desk/posts?done=deleted")) } else { Err(Trouble::NotFound) };
        }
        let id = parameter::<i64>(&visit, "id")?.and_then(|id| PostId::new(id).ok()).ok_or(Trouble::NotFound)?;
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
