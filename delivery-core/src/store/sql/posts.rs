//! Posts: reading and changing them.

use std::sync::Arc;

use async_trait::async_trait;

use super::rows::{self, Columns, parsed};
use super::session::{Database, Patience, Session, Value, values};
use super::statements::limit;
use crate::ledger::{Action, Edit};
use crate::post::{NewPost, Post, PostId};
use crate::store::cache::PostVersion;
use crate::store::catalog::{fitting, unchanged};
use crate::store::{PostQuery, Posts, StoreError};

/// The columns that [`rows::post`] reads.
macro_rules! post_columns {
    () => {
        "id, title, category, content, published_at"
    };
}

const ADD_POST: &str = concat!(
    "INSERT INTO delivery_post (title, category, content, published_at) \
    VALUES ($1, $2, $3, $4) RETURNING ",
    post_columns!()
);

const POST: &str = concat!("SELECT ", post_columns!(), " FROM delivery_post WHERE id = $1");

const UPDATE_POST: &str = concat!(
    "UPDATE delivery_post \
    SET title = $1, category = $2, content = $3, published_at = $4, version = version + 1 WHERE id = $5 \
    RETURNING ",
    post_columns!()
);

const DELETE_POST: &str = concat!("DELETE FROM delivery_post WHERE id = $1 RETURNING ", post_columns!());

/// Selects the numbers, versions and content lengths (in bytes) of at most `$3` posts, newest first. Selects only posts
/// that were published before second `$1`, or at second `$1` with a number below `$2`. Neither database reads the
/// content to find its length.
const POSTS: &str = "SELECT id, version, CAST(octet_length(content) AS bigint) AS length FROM delivery_post \
    WHERE (published_at, id) < ($1, $2) ORDER BY published_at DESC, id DESC LIMIT $3";

/// Selects the same as [`POSTS`], but only posts of category `$4`.
const POSTS_OF_CATEGORY: &str = "SELECT id, version, CAST(octet_length(content) AS bigint) AS length FROM delivery_post \
    WHERE (published_at, id) < ($1, $2) AND category = $4 ORDER BY published_at DESC, id DESC LIMIT $3";

/// Returns the ids and versions of the first posts whose contents together [fit](fitting) into one list.
fn listed(rows: &[impl Columns]) -> Result<Vec<PostVersion>, StoreError> {
    let lengths = rows.iter().map(|row| Columns::integer(row, "length"));
    let lengths = lengths.map(|length| length.map(|length| usize::try_from(length).unwrap_or(usize::MAX)));
    let fit = fitting(lengths.collect::<Result<Vec<_>, _>>()?);
    let id = |row| parsed(PostId::new(Columns::integer(row, "id")?), "post number");
    rows.iter().take(fit).map(|row| Ok((id(row)?, row.integer("version")?))).collect()
}

#[async_trait]
impl<D: Database> Posts for D {
    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        let sql = if query.category.is_some() { POSTS_OF_CATEGORY } else { POSTS };
        let before = query.before.map_or(i64::MAX, PostId::get);
        let mut wanted = values![query.until.timestamp(), before, limit(query.limit)];
        wanted.extend(query.category.as_ref().map(|category| Value::from(category.as_str())));
        let ids = listed(&self.read(Patience::Usual, |session| Box::pin(session.rows(sql, wanted))).await?)?;
        let cache = Database::posts(self);
        if let Some(held) = cache.get(&ids) {
            return Ok(held);
        }
        let wanted = ids.iter().map(|(id, _)| id.get()).collect::<Vec<_>>();
        let contents = self.read(Patience::Usual, move |session| {
            Box::pin(async move {
                let is_wanted = session.dialect().any_of("id", "$1");
                let columns = post_columns!();
                let sql = format!(
                    "SELECT {columns} FROM delivery_post WHERE {is_wanted} ORDER BY published_at DESC, id DESC"
                );
                session.rows(&sql, values![wanted]).await
            })
        });
        Ok(cache.keep(ids, contents.await?.iter().map(rows::post).collect::<Result<_, _>>()?))
    }

    async fn add_post(&self, post: NewPost, edit: Edit) -> Result<Post, StoreError> {
        self.write(Patience::Usual, move |session| {
            Box::pin(async move {
                let added = change(session, (ADD_POST, columns(&post)?), Action::PostAdded, &edit).await?;
                added.ok_or(StoreError::corrupt("a post that was added and is not there"))
            })
        })
        .await
    }

    async fn post(&self, id: PostId) -> Result<Option<Post>, StoreError> {
        let found = self.read(Patience::Usual, move |session| Box::pin(session.row(POST, values![id.get()])));
        found.await?.map(|row| rows::post(&row)).transpose()
    }

    async fn update_post(
        &self,
        id: PostId,
        post: NewPost,
        was: Option<&NewPost>,
        edit: Edit,
    ) -> Result<Option<Post>, StoreError> {
        let was = was.cloned();
        self.write(Patience::Usual, move |session| {
            Box::pin(async move {
                if let Some(was) = &was {
                    let sql = session.dialect().locking(POST);
                    let is = session.row(&sql, values![id.get()]).await?.map(|row| rows::post(&row)).transpose()?;
                    unchanged(is.as_ref().map(Post::facts), Some(was))?;
                }
                let mut facts = columns(&post)?;
                facts.push(id.get().into());
                change(session, (UPDATE_POST, facts), Action::PostUpdated, &edit).await
            })
        })
        .await
    }

    async fn delete_post(&self, id: PostId, edit: Edit) -> Result<bool, StoreError> {
        self.write(Patience::Usual, move |session| {
            Box::pin(async move {
                let delete = (DELETE_POST, values![id.get()]);
                Ok(change(session, delete, Action::PostDeleted, &edit).await?.is_some())
            })
        })
        .await
    }
}

/// Changes a post and adds an entry to the audit log. Returns `None` if there is no such post.
async fn change(
    session: &mut Session<'_>,
    (sql, values): (&str, Vec<Value>),
    action: Action,
    edit: &Edit,
) -> Result<Option<Post>, StoreError> {
    let Some(row) = session.row(sql, values).await? else { return Ok(None) };
    let post = rows::post(&row)?;
    let detail = Some(format!("post {}", post.id().get()));
    session.log((None, None), action, &Edit { detail, ..edit.clone() }).await?;
    Ok(Some(post))
}

/// Returns the parameters of [`ADD_POST`], which are also the first four of [`UPDATE_POST`].
fn columns(facts: &NewPost) -> Result<Vec<Value>, StoreError> {
    // The post is made only to read the facts: the methods of `NewPost` called `title` and so on set a value. The
    // post's number is arbitrary.
    let post = Post::new(parsed(PostId::new(1), "post number")?, facts.clone());
    Ok(values![post.title(), post.category().as_str(), post.content(), post.published_at().timestamp()])
}
