//! A cache of product contents rendered as HTML.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync;

use super::pictures::Illustrated;
use super::rendered;
use crate::product::Product;

/// The maximum size of the cache, in bytes. The HTML, the escaped source and the original content of all entries are
/// counted.
const KEPT: usize = 16 << 20;

/// The rendered content of a product.
pub(crate) struct Shown {
    product: Arc<Product>,
    /// The content as HTML.
    pub html: Illustrated,
    /// The Markdown source, escaped as the text of an HTML element.
    pub source: Bytes,
}

/// A cache of the product contents that were shown recently.
#[derive(Default)]
pub(crate) struct Shelf {
    /// The lock that allows only one rendering at a time. Rendering the longest content takes about ten megabytes and a
    /// tenth of a second. Other requests wait meanwhile, because most of them want the same content. The rendering task
    /// holds the lock, because the request that started it may be cancelled before the task ends.
    rendering: Arc<sync::Mutex<()>>,
    kept: Arc<Kept>,
}

/// The cached contents, ordered by their last use. The most recently used one is at the end.
#[derive(Default)]
struct Kept(Mutex<VecDeque<Arc<Shown>>>);

impl Shelf {
    /// Returns the rendered content of `product`. Renders it if it is not in the cache. Returns `None` if the rendering
    /// panicked.
    pub(crate) async fn shown(&self, product: &Arc<Product>) -> Option<Arc<Shown>> {
        if let Some(shown) = self.kept.find(product) {
            return Some(shown);
        }
        let turn = self.rendering.clone().lock_owned().await;
        // Look again, because another request may have rendered the content while this one waited for the lock.
        if let Some(shown) = self.kept.find(product) {
            return Some(shown);
        }
        let (product, kept) = (product.clone(), self.kept.clone());
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let html = Illustrated::new(rendered(product.content()));
            let source = minijinja::HtmlEscape(product.content()).to_string().into();
            let shown = Arc::new(Shown { product, html, source });
            kept.keep(shown.clone());
            shown
        });
        made.await.ok()
    }

    /// Renders Markdown for a preview, without caching the result. Returns `None` if the rendering panicked.
    pub(crate) async fn preview(&self, markdown: String) -> Option<String> {
        let turn = self.rendering.clone().lock_owned().await;
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            // A preview has no addresses for the product's files. Browsers show the description of a picture if its
            // file has no address.
            let html = Illustrated::new(rendered(&markdown)).filled(|_| None).concat();
            String::from_utf8(html).unwrap_or_default()
        });
        made.await.ok()
    }
}

impl Kept {
    fn find(&self, product: &Arc<Product>) -> Option<Arc<Shown>> {
        let mut kept = self.lock();
        let at = kept
            .iter()
            .position(|shown| Arc::ptr_eq(&shown.product, product) || shown.product.content() == product.content())?;
        let shown = kept.remove(at)?;
        kept.push_back(shown.clone());
        Some(shown)
    }

    fn keep(&self, shown: Arc<Shown>) {
        let mut kept = self.lock();
        kept.push_back(shown);
        let mut held: usize = kept.iter().map(|shown| shown.memory()).sum();
        // The newest entry is kept even if it exceeds the limit.
        while held > KEPT && kept.len() > 1 {
            held -= kept.pop_front().map_or(0, |shown| shown.memory());
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Shown>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    fn memory(&self) -> usize {
        self.html.memory() + self.source.len() + self.product.content().len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt;

    use super::*;
    use crate::product::{NewProduct, ProductId};

    /// Polls the future `begun` once, so that it requests a rendering. Then drops the future before the rendering
    /// begins. Returns when the rendering is finished.
    async fn leaves<T>(shelf: &Shelf, begun: impl Future<Output = Option<T>>) {
        let (go_on, told) = mpsc::channel::<()>();
        // Block the only blocking thread, so that the rendering cannot begin yet.
        let _busy = tokio::task::spawn_blocking(move || told.recv());
        assert!(begun.now_or_never().is_none());
        assert!(shelf.rendering.try_lock().is_err(), "nobody renders beside what goes on");
        drop(go_on);
        drop(shelf.rendering.lock().await);
    }

    #[test]
    fn who_leaves_lets_nobody_render_beside_and_leaves_what_is_made() {
        let facts = NewProduct::new("Maps").and_then(|facts| facts.content("# Maps")).unwrap();
        let product = Arc::new(Product::new(ProductId::new(1).unwrap(), facts));
        let shelf = Shelf::default();
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(leaves(&shelf, shelf.preview("# Maps".to_owned())));
        runtime.block_on(leaves(&shelf, shelf.shown(&product)));
        let shown = shelf.shown(&product).now_or_never().flatten().expect("it is kept");
        assert_eq!(shown.html.filled(|_| None).concat(), b"<h2 id=\"in-maps\" dir=\"auto\">Maps</h2>\n");
    }
}
