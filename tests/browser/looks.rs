//! What holds of every page, whoever looks at it.

use serde_json::Value;

use crate::browser::{Browser, View};
use crate::shop::Page;

/// From a small phone to a wide screen, nothing is to be scrolled sideways.
pub async fn is_as_wide_as_the_window(browser: &Browser, page: &Page) {
    for width in [320, 390, 768, 1024, 1280, 1920] {
        browser.view(View { width, ..View::default() }).await;
        let wide = browser.run("return document.documentElement.scrollWidth").await;
        assert!(wide.as_u64().unwrap() <= u64::from(width), "{} at {width}: {wide}", page.name);
    }
}

/// In light and dark, on a phone and on a screen.
pub async fn has_no_violation(browser: &Browser, page: &Page, axe: &str) {
    const RUN: &str = "const done = arguments[arguments.length - 1]; axe.run(document).then(found => done(\
        found.violations.map(it => it.id + ': ' + it.nodes.map(node => node.html + ' ' + node.failureSummary).join(' | '))));";
    browser.run(axe).await;
    for dark in [false, true] {
        for width in [390, 1280] {
            browser.view(View { width, dark, ..View::default() }).await;
            let found = browser.run_later(RUN).await;
            assert_eq!(found, Value::Array(Vec::new()), "{} at {width}, dark: {dark}", page.name);
        }
    }
    browser.view(View::default()).await;
}

/// The Tab key comes to everything that can be clicked or typed into, and one sees where it stands.
pub async fn can_be_used_by_keyboard(browser: &Browser, page: &Page) {
    const COUNT: &str = "window.reached = new Set(); document.activeElement.blur(); \
        window.usable = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]')]\
            .filter(it => it.checkVisibility()); return usable.length";
    const LOOK: &str = "const it = document.activeElement, style = getComputedStyle(it); \
        if (it.tagName === 'IFRAME' || it.type === 'date' && it === window.last) return 'part'; window.last = it; \
        if (it === document.body || reached.has(it)) return 'again'; reached.add(it); \
        const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2; \
        return seen ? 'seen' : it.outerHTML";
    let usable = browser.run(COUNT).await.as_u64().unwrap();
    let (mut reached, mut pressed) = (0, 0);
    while reached < usable && pressed < usable * 4 {
        browser.press("Tab", 9).await;
        pressed += 1;
        let seen = browser.run(LOOK).await;
        // Day, month and year of a date are reached one after another, and so are the links in a frame, which shows them itself.
        if seen != "part" {
            assert_eq!(seen, "seen", "{}", page.name);
            reached += 1;
        }
    }
    let left = browser.run("return usable.filter(it => !reached.has(it)).map(it => it.outerHTML)").await;
    let others = browser.run("return [...reached].filter(it => !usable.includes(it)).map(it => it.outerHTML)").await;
    assert_eq!(left, Value::Array(Vec::new()), "{}: not reached, but {others}", page.name);
}
