//! The built-in templates, one file each.

macro_rules! all {
    ($($name:literal),+ $(,)?) => { [$(($name, include_str!(concat!("templates/", $name)))),+] };
}

pub(super) static ALL: [(&str, &str); 28] = all![
    "_layout.html",
    "_desk.html",
    "_parts.html",
    "_words.html",
    "_words.de.html",
    "audit.html",
    "confirm.html",
    "email.html",
    "erase.html",
    "error.html",
    "event.html",
    "events.html",
    "import.html",
    "issue.html",
    "key.html",
    "key_form.html",
    "keys.html",
    "lost.html",
    "messages.html",
    "opened.html",
    "overview.html",
    "post.html",
    "posts.html",
    "product.html",
    "products.html",
    "setup.html",
    "sign_in.html",
    "the_key.html",
];
