//! Products as HTML, made once for all who open them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync;

use super::rendered;
use crate::product::Product;

/// How many bytes of HTML are kept.
const KEPT: usize = 16 << 20;

/// A product's content for a page.
pub(crate) struct Shown {
    product: Arc<Product>,
    /// The content as HTML.
    pub html: Bytes,
    /// The content as it was written, as the text of an element.
    pub source: Bytes,
}

/// Contents that were shown not long ago.
#[derive(Default)]
pub(crate) struct Shelf {
    /// Held by whoever renders. The longest content takes some ten megabytes and a tenth of a second: the others wait, since most
    /// of them want the same.
    rendering: sync::Mutex<()>,
    /// The last used is the last.
    kept: Mutex<VecDeque<Arc<Shown>>>,
}

impl Shelf {
    /// The content of `product`, which is rendered if it is not kept. Nothing if the rendering panicked.
    pub(crate) async fn shown(&self, product: &Arc<Product>) -> Option<Arc<Shown>> {
        if let Some(shown) = self.find(product) {
            return Some(shown);
        }
        let _turn = self.rendering.lock().await;
        // Somebody else may have made it meanwhile.
        if let Some(shown) = self.find(product) {
            return Some(shown);
        }
        let product = product.clone();
        let made = tokio::task::spawn_blocking(move || {
            let html = rendered(product.content()).into();
            let source = minijinja::HtmlEscape(product.content()).to_string().into();
            Arc::new(Shown { product, html, source })
        });
        let shown = made.await.ok()?;
        self.keep(shown.clone());
        Some(shown)
    }

    /// Markdown that is shown to its author alone.
    pub(crate) async fn preview(&self, markdown: String) -> Option<String> {
        let _turn = self.rendering.lock().await;
        tokio::task::spawn_blocking(move || rendered(&markdown)).await.ok()
    }

    fn find(&self, product: &Arc<Product>) -> Option<Arc<Shown>> {
        let mut kept = self.kept();
        let at = kept
            .iter()
            .position(|shown| Arc::ptr_eq(&shown.product, product) || shown.product.content() == product.content())?;
        let shown = kept.remove(at)?;
        kept.push_back(shown.clone());
        Some(shown)
    }

    fn keep(&self, shown: Arc<Shown>) {
        let mut kept = self.kept();
        kept.push_back(shown);
        let mut held: usize = kept.iter().map(|shown| shown.memory()).sum();
        // The last is kept however long it is.
        while held > KEPT && kept.len() > 1 {
            held -= kept.pop_front().map_or(0, |shown| shown.memory());
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Arc<Shown>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    fn memory(&self) -> usize {
        self.html.len() + self.source.len() + self.product.content().len()
    }
}
