//! The parts that every page of the seller's desk has around its content: the navigation, the seller's name, and a
//! message about the form that was submitted.

use chrono::Datelike;
use minijinja::{Value, context};

use super::{PageRequest, SignedIn};
use crate::http::query;

/// The entries of the desk's navigation: path and label.
const NAV: &[(&str, &str)] = &[
    ("/desk", "Overview"),
    ("/desk/keys", "Keys"),
    ("/desk/products", "Products"),
    ("/desk/events", "Activity"),
    ("/desk/posts", "Posts"),
    ("/desk/setup", "Setup"),
];
/// The tabs of the navigation entry *Activity*: path and label.
const ACTIVITY: &[(&str, &str)] =
    &[("/desk/events", "Platform events"), ("/desk/messages", "Messages"), ("/desk/audit", "Audit log")];

/// Returns the values that every page of the desk needs: the signed-in seller, the navigation, and a confirmation
/// message. `here` is the path of the page.
pub(super) fn desk(request: &PageRequest<'_>, seller: &SignedIn, here: &str) -> Value {
    let done = query::parameter(request.call, "done").ok().flatten();
    // Show only messages from a fixed list, so that a crafted link cannot put text into the page.
    let notice = done.and_then(|done| DONE.iter().find(|(name, _)| *name == done).copied());
    let is_written = request.delivery.inner.outbox.mailer.reaches_nobody();
    let is_written = is_written && notice.is_some_and(|(name, _)| E_MAILS.contains(&name));
    let is_well = !is_written && notice.is_some_and(|(name, _)| !NOT_DONE.contains(&name));
    let is_activity = ACTIVITY.iter().any(|(path, _)| *path == here);
    context! {
        year => request.delivery.now().year(),
        seller => context! {
            nav => NAV.to_vec(), here, tabs => is_activity.then(|| ACTIVITY.to_vec()),
            entry => if is_activity { "/desk/events" } else { here }, waits => seller.waits.clone(), csrf => seller.csrf.text(), signs_out => seller.session.is_some(), name => seller.actor.as_str()
        },
        notice => notice.map(|(name, sentence)| match (is_written, name) {
            (false, _) => sentence.to_owned(),
            (true, "some_resent") => format!("{WRITTEN} Revoked keys were left out."),
            (true, _) => WRITTEN.to_owned(),
        }), is_well, fault => Value::from(()), faulty => "",
    }
}

/// The messages that the desk shows after a form was handled. Each entry has the value of the URL parameter `done` that
/// selects the message, and the message.
const DONE: &[(&str, &str)] = &[
    ("issued", "The key is issued, and its e-mail is on its way."),
    ("none_chosen", "Choose keys first: nothing was done."),
    ("none_done", "Nothing was done: the keys are revoked, or are not there."),
    ("all_revoked", "The keys are revoked."),
    ("all_resent", "The e-mails are on their way."),
    ("some_resent", "The e-mails are on their way. Revoked keys were left out."),
    ("revoked", "The key is revoked."),
    ("restored", "The key can be used again."),
    ("changed", "The key has its new terms."),
    ("resent", "The e-mail is on its way."),
    ("saved", "Saved. Buyers who open it from now on get it as it is now."),
    ("posted", "Saved. Whoever lists the posts gets it as it is now."),
    ("files", "The files are there. Buyers who open the product get them."),
    ("file_deleted", "The file is deleted."),
    ("archived", "The product is no longer sold."),
    ("on_sale", "The product is sold again."),
    ("deleted", "The post is deleted."),
    ("retried", "The message is sent again."),
    ("nothing", "Nothing was to be done: this message no longer waits."),
    ("applied", "The event was applied: below is the result."),
    ("secret_set", "The secret is set. Every server accepts events that are signed with it."),
    ("secret_removed", "The secret is removed."),
    ("mailed", "The mail server took the test e-mail."),
    ("erased", "The person is forgotten."),
    ("nobody", "No key has this address: check how it is spelled. Whatever else mentioned it is gone."),
    ("unapplied", "Nothing came of it: below is what is missing."),
    ("ignored", "The event was ignored: below is why."),
    ("done_before", "This event was done before, and nothing was changed."),
    ("linked_waits", "The product is linked. This event still waits: below is what is missing."),
    ("dismissed", "The event is put aside. To apply it after all, send the form below."),
    (
        "linked",
        "The product is linked. Sales of it that waited were applied. Sales that were put aside were not: open and apply each of them.",
    ),
    ("written", "The test e-mail was written to a file. Nobody gets e-mails before a mail server is set."),
];

/// The entries of [`DONE`] whose message states that an e-mail is sent.
const E_MAILS: &[&str] = &["issued", "resent", "all_resent", "some_resent"];
/// The message that replaces those of [`E_MAILS`] if no mail server is configured.
const WRITTEN: &str =
    "It is done, but its e-mail only becomes a file here, and reaches nobody: set a mail server first.";
/// The entries of [`DONE`] that the desk does not show as a success.
const NOT_DONE: &[&str] = &[
    "none_chosen",
    "none_done",
    "some_resent",
    "nothing",
    "unapplied",
    "ignored",
    "done_before",
    "linked_waits",
    "nobody",
    "written",
];
