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
    /// Held by what is being rendered, not by who asked for it, who may leave. The longest content takes some ten megabytes and a
    /// tenth of a second: the others wait, since most of them want the same.
    rendering: Arc<sync::Mutex<()>>,
    kept: Arc<Kept>,
}

/// The last used is the last.
#[derive(Default)]
struct Kept(Mutex<VecDeque<Arc<Shown>>>);

impl Shelf {
    /// The content of `product`, which is rendered if it is not kept. Nothing if the rendering panicked.
    pub(crate) async fn shown(&self, product: &Arc<Product>) -> Option<Arc<Shown>> {
        if let Some(shown) = self.kept.find(product) {
            return Some(shown);
        }
        let turn = self.rendering.clone().lock_owned().await;
        // Somebody else may have made it meanwhile.
        if let Some(shown) = self.kept.find(product) {
            return Some(shown);
        }
        let (product, kept) = (product.clone(), self.kept.clone());
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let html = rendered(product.content()).into();
            let source = minijinja::HtmlEscape(product.content()).to_string().into();
            let shown = Arc::new(Shown { product, html, source });
            kept.keep(shown.clone());
            shown
        });
        made.await.ok()
    }

    /// Markdown that is shown to its author alone.
    pub(crate) async fn preview(&self, markdown: String) -> Option<String> {
        let turn = self.rendering.clone().lock_owned().await;
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            rendered(&markdown)
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
        // The last is kept however long it is.
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
        self.html.len() + self.source.len() + self.product.content().len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt;

    use super::*;
    use crate::product::{NewProduct, ProductId};

    /// Begins, and leaves before it is rendered. Returns once it is.
    async fn leaves<T>(shelf: &Shelf, begun: impl Future<Output = Option<T>>) {
        let (go_on, told) = mpsc::channel::<()>();
        // The only thread is busy, so that nothing has been rendered yet.
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
        assert_eq!(&shown.html[..], b"<h2>Maps</h2>\n");
    }
}
