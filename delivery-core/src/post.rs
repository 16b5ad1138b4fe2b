//! A public post: news about products, listed by category.

use chrono::{DateTime, Utc};

use crate::clock::whole_seconds;
use crate::product::checked_content;
use crate::text::{Invalid, line};

/// A post's number, 1 or more, assigned by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PostId(i64);

crate::text::line_type! {
    /// A post's category: 1 to 64 characters without control characters, compared exactly.
    Category, 64
}

/// A validated post without a number. The store assigns the number when the post is
/// [added](crate::store::Posts::add_post).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NewPost {
    title: String,
    category: Category,
    content: String,
    published_at: DateTime<Utc>,
}

/// A post with its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Post {
    id: PostId,
    facts: NewPost,
}

impl PostId {
    /// Makes a post's number from an integer.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `id` is less than 1.
    pub fn new(id: i64) -> Result<Self, Invalid> {
        if id >= 1 { Ok(Self(id)) } else { Err(Invalid::expected("must be an integer of 1 or more")) }
    }

    /// Returns the number, 1 or more.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl NewPost {
    /// Makes a post that is published at `published_at`, rounded down to whole seconds. The post is not listed before
    /// that time.
    ///
    /// # Errors
    ///
    /// [`Invalid`] unless `title` has 1 to 200 characters and no control characters.
    pub fn new(title: impl Into<String>, category: Category, published_at: DateTime<Utc>) -> Result<Self, Invalid> {
        let title = title.into();
        if !line(&title, 1, 200) {
            return Err(Invalid::expected("must be 1 to 200 characters without control characters"));
        }
        Ok(Self { title, category, content: String::new(), published_at: whole_seconds(published_at) })
    }

    /// Sets the title, which must satisfy the same rule as in [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `title` breaks the rule.
    pub fn title(mut self, title: impl Into<String>) -> Result<Self, Invalid> {
        self.title = Self::new(title, self.category.clone(), self.published_at)?.title;
        Ok(self)
    }

    /// Sets the category.
    #[must_use]
    pub fn category(mut self, category: Category) -> Self {
        self.category = category;
        self
    }

    /// Sets when the post is published, rounded down to whole seconds.
    #[must_use]
    pub fn published_at(mut self, published_at: DateTime<Utc>) -> Self {
        self.published_at = whole_seconds(published_at);
        self
    }

    /// Sets the text: at most 1 MiB, no control characters except line breaks and tabs.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for any other text.
    pub fn content(mut self, content: impl Into<String>) -> Result<Self, Invalid> {
        self.content = checked_content(content.into())?;
        Ok(self)
    }
}

impl Post {
    /// Makes a post from its number and its other properties.
    #[must_use]
    pub fn new(id: PostId, facts: NewPost) -> Self {
        Self { id, facts }
    }

    /// Returns all properties of the post except its number.
    #[must_use]
    pub fn facts(&self) -> &NewPost {
        &self.facts
    }

    /// Returns the number.
    #[must_use]
    pub fn id(&self) -> PostId {
        self.id
    }

    /// Returns the title, which is one line.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.facts.title
    }

    /// Returns the category.
    #[must_use]
    pub fn category(&self) -> &Category {
        &self.facts.category
    }

    /// Returns the text.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.facts.content
    }

    /// Returns when the post is, or was, published.
    #[must_use]
    pub fn published_at(&self) -> DateTime<Utc> {
        self.facts.published_at
    }
}
