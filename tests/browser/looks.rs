//! What holds of every page, whoever looks at it.

use serde_json::Value;

use crate::browser::{Browser, View};
use crate::shop::Page;

/// From a small phone to a wide screen, nothing is to be scrolled sideways.
pub async fn is_as_wide_as_the_window(browser: &Browser, page: &Page) {
    for width in [320, 390, 768, 1024, 1280, 1920] {
        browser.resize(width).await;
        let wide = browser.run("return document.documentElement.scrollWidth").await;
        assert!(wide.as_u64().unwrap() <= u64::from(width), "{} at {width}: {wide}", page.name);
    }
}

/// In light and dark, on a phone and on a screen. In the dark only the colours are others.
pub async fn has_no_violation(browser: &Browser, page: &Page, axe: &str) {
    const RUN: &str = "const done = arguments[arguments.length - 1]; axe.run(document, RULES).then(found => done(\
        found.violations.map(it => it.id + ': ' + it.nodes.map(node => node.html + ' ' + node.failureSummary).join(' | '))));";
    browser.run(axe).await;
    for (dark, rules) in [(false, "{}"), (true, "{ runOnly: ['color-contrast', 'link-in-text-block'] }")] {
        for width in [390, 1280] {
            browser.view(View { width, dark, ..View::default() }).await;
            let found = browser.run_later(&RUN.replace("RULES", rules)).await;
            assert_eq!(found, Value::Array(Vec::new()), "{} at {width}, dark: {dark}", page.name);
        }
    }
    browser.view(View::default()).await;
}

/// The Tab key comes to everything that can be clicked or typed into, and one sees where it stands.
pub async fn can_be_used_by_keyboard(browser: &Browser, page: &Page) {
    // Day, month and year of a date are reached one after another without an event, and so are the links in a frame,
    // which shows them itself. An element counts as seen if one of its focuses shows it: once, for a reason that is not
    // known, a link that has an outline had none yet when the event of its focus was handled.
    const LISTEN: &str = "window.seen = new Set(); window.unseen = new Set(); document.activeElement.blur(); \
        window.usable = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]')]\
            .filter(it => it.checkVisibility()); \
        addEventListener('focusin', ({ target: it }) => { \
            if (it.tagName === 'IFRAME') return; \
            const style = getComputedStyle(it); \
            (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 ? seen : unseen).add(it); }); \
        return usable.length";
    const LEFT: &str = "return [...new Set([...usable, ...unseen])].filter(it => !seen.has(it)).map(it => (unseen.has(it) ? 'unseen ' : '') + it.outerHTML)";
    let usable = browser.run(LISTEN).await.as_u64().unwrap();
    let none = Value::Array(Vec::new());
    let mut left = Value::Null;
    for _ in 0..4 {
        browser.tab(usable).await;
        left = browser.run(LEFT).await;
        if left == none {
            break;
        }
    }
    let others = browser.run("return [...seen].filter(it => !usable.includes(it)).map(it => it.outerHTML)").await;
    assert_eq!(left, none, "{}: not reached, but {others}", page.name);
}
