//! Posts: reading and changing them.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Executor};

use super::audit::log;
use super::catalog::{Statement, TURN};
use super::connect::Sessions;
use super::error::store_error;
use super::session::Session;
use super::{PostgresStore, detached};
use crate::post::{NewPost, Post, PostId};
use crate::store::cache::PostCache;
use crate::store::catalog::{are_alike, unchanged};
use crate::store::sql::rows;
use crate::store::sql::statements::{
    ADD_POST, DELETE_POST, POST, POSTS, POSTS_OF_CATEGORY, UPDATE_POST, bind_post, limit, listed,
};
use crate::store::{Action, Edit, PostQuery, Posts, StoreError};

async fn add_post(session: &mut Session<'_>, facts: &NewPost, edit: &Edit) -> Result<Post, StoreError> {
    let draft = rows::draft_post(facts)?;
    let add = bind_post!(session.query(ADD_POST), draft);
    let added = change_post(session, (add, None), Action::PostAdded, edit).await?;
    added.ok_or(StoreError::corrupt("a post that was added and is not there"))
}

async fn add_post_once(session: &mut Session<'_>, facts: &NewPost, edit: &Edit) -> Result<Post, StoreError> {
    const NEWEST: &str = "SELECT id, title, category, content, published_at FROM delivery_post \
        ORDER BY published_at DESC, id DESC LIMIT 1";
    let mut transaction = session.begin().await.map_err(store_error)?;
    transaction.execute(TURN).await.map_err(store_error)?;
    let mut inside = Session::Host(&mut transaction);
    let newest = inside.query(NEWEST).fetch_optional(&mut *inside).await.map_err(store_error)?;
    let newest = newest.map(|row| rows::post(&row)).transpose()?;
    let post = match newest.filter(|newest| are_alike(newest, facts)) {
        Some(newest) => newest,
        None => add_post(&mut inside, facts, edit).await?,
    };
    transaction.commit().await.map_err(store_error)?;
    Ok(post)
}

async fn update_post(
    session: &mut Session<'_>,
    id: PostId,
    (facts, was): (&NewPost, Option<&NewPost>),
    edit: &Edit,
) -> Result<Option<Post>, StoreError> {
    let draft = rows::draft_post(facts)?;
    let update = bind_post!(session.query(UPDATE_POST), draft).bind(id.get());
    change_post(session, (update, was.map(|was| (id, was))), Action::PostUpdated, edit).await
}

async fn delete_post(session: &mut Session<'_>, id: PostId, edit: &Edit) -> Result<bool, StoreError> {
    let delete = session.query(DELETE_POST).bind(id.get());
    Ok(change_post(session, (delete, None), Action::PostDeleted, edit).await?.is_some())
}

/// Changes a post, and enters that into the audit log.
async fn change_post(
    session: &mut Session<'_>,
    (statement, was): (Statement<'_>, Option<(PostId, &NewPost)>),
    action: Action,
    edit: &Edit,
) -> Result<Option<Post>, StoreError> {
    let mut transaction = session.begin().await.map_err(store_error)?;
    if let Some((id, was)) = was {
        let mut inside = Session::Host(&mut transaction);
        let find = inside.query(AssertSqlSafe(format!("{POST} FOR UPDATE"))).bind(id.get());
        let row = find.fetch_optional(&mut *inside).await.map_err(store_error)?;
        let is = row.map(|row| rows::post(&row)).transpose()?;
        unchanged(is.as_ref().map(Post::facts), Some(was))?;
    }
    let row: Option<PgRow> = statement.fetch_optional(&mut *transaction).await.map_err(store_error)?;
    let post = row.map(|row| rows::post(&row)).transpose()?;
    if let Some(post) = &post {
        let detail = Some(format!("post {}", post.id().get()));
        let edit = Edit { detail, ..edit.clone() };
        log(&mut Session::Host(&mut transaction), (None, None), action, &edit).await?;
    }
    transaction.commit().await.map_err(store_error)?;
    Ok(post)
}

async fn post(sessions: Sessions, id: PostId) -> Result<Option<Post>, StoreError> {
    detached(async move {
        let mut session = sessions.read().await?;
        let row = session.query(POST).bind(id.get()).fetch_optional(&mut *session).await.map_err(store_error)?;
        session.finish().await.map_err(store_error)?;
        row.map(|row| rows::post(&row)).transpose()
    })
    .await
}

async fn posts(sessions: Sessions, lists: Arc<PostCache>, query: PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
    const CONTENTS: &str = "SELECT id, title, category, content, published_at FROM delivery_post WHERE id = ANY($1) \
                            ORDER BY published_at DESC, id DESC";
    detached(async move {
        let mut session = sessions.read().await?;
        let statement = session.query(if query.category.is_some() { POSTS_OF_CATEGORY } else { POSTS });
        let mut statement = statement.bind(query.until.timestamp()).bind(limit(query.limit));
        if let Some(category) = &query.category {
            statement = statement.bind(category.as_str().to_owned());
        }
        let ids = listed(&statement.fetch_all(&mut *session).await.map_err(store_error)?)?;
        if let Some(held) = lists.get(&ids) {
            session.finish().await.map_err(store_error)?;
            return Ok(held);
        }
        let contents = session.query(CONTENTS).bind(ids.iter().map(|(id, _)| id.get()).collect::<Vec<_>>());
        let found = contents.fetch_all(&mut *session).await.map_err(store_error)?;
        session.finish().await.map_err(store_error)?;
        Ok(lists.keep(ids, found.iter().map(rows::post).collect::<Result<_, _>>()?))
    })
    .await
}

#[async_trait]
impl Posts for PostgresStore {
    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        posts(self.sessions.clone(), self.posts.clone(), query.clone()).await
    }

    async fn add_post(&self, post: NewPost, edit: Edit) -> Result<Post, StoreError> {
        let queue = self.maintenance()?;
        let add = queue.run(move |session| Box::pin(async move { add_post(session, &post, &edit).await }));
        add.await
    }

    async fn add_post_once(&self, post: NewPost, edit: Edit) -> Result<Post, StoreError> {
        let queue = self.maintenance()?;
        let add = queue.run(move |session| Box::pin(async move { add_post_once(session, &post, &edit).await }));
        add.await
    }

    async fn post(&self, id: PostId) -> Result<Option<Post>, StoreError> {
        post(self.sessions.clone(), id).await
    }

    async fn update_post(
        &self,
        id: PostId,
        post: NewPost,
        was: Option<&NewPost>,
        edit: Edit,
    ) -> Result<Option<Post>, StoreError> {
        let (queue, was) = (self.maintenance()?, was.cloned());
        let update = queue
            .run(move |session| Box::pin(async move { update_post(session, id, (&post, was.as_ref()), &edit).await }));
        update.await
    }

    async fn delete_post(&self, id: PostId, edit: Edit) -> Result<bool, StoreError> {
        let queue = self.maintenance()?;
        let delete = queue.run(move |session| Box::pin(async move { delete_post(session, id, &edit).await }));
        delete.await
    }
}
