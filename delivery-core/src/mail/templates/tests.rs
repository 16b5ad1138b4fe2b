use chrono::{DateTime, TimeDelta, Utc};

use super::*;
use crate::key::{Key, KeyId, KeyState, Keyring, NewKey, Prefix};
use crate::mail::{Brand, MailLinks};
use crate::order::{OrderRef, Source};
use crate::product::{NewProduct, Product, ProductId};
use crate::terms::{Terms, UseLimit, Validity};

/// Renders an e-mail about one key for each product name in `names`.
fn message(kind: MessageKind, names: &[&str], terms: Terms, used: u64, language: Option<&str>) -> Rendered {
    message_after((0, false), kind, names, (terms, used), language)
}

/// Renders an e-mail as [`message`] does, but `days` days after the keys were issued. `is_subscribed` says whether a
/// subscription renews the keys.
fn message_after(
    (days, is_subscribed): (i64, bool),
    kind: MessageKind,
    names: &[&str],
    (terms, used): (Terms, u64),
    language: Option<&str>,
) -> Rendered {
    let keyring = Keyring::new(Prefix::default(), &["0123456789abcdef".parse().unwrap()]).unwrap();
    let email: Email = "{{7*7}}@example.com".parse().unwrap();
    let (mut keys, mut texts, mut products) = (Vec::new(), Vec::new(), Vec::new());
    let at: DateTime<Utc> = "2026-11-21T10:00:00Z".parse().unwrap();
    let now = at + TimeDelta::days(days);
    for (number, name) in (1..).zip(names) {
        let facts = NewProduct::new(*name).unwrap();
        let facts = match language {
            Some(language) => facts.language(language.parse().unwrap()),
            None => facts,
        };
        let product = Product::new(ProductId::new(number).unwrap(), facts);
        let id = (KeyId::from_bytes([u8::try_from(number).unwrap(); 16]), keyring.newest());
        let order = OrderRef { source: Source::webhook(), id: format!("100{number}").parse().unwrap() };
        let granted = NewKey::on_terms(id, product.id(), email.clone(), terms, at);
        let key = Key::from(NewKey { order: Some(order), ..granted });
        let state = KeyState { used, ..key.state().clone() };
        let key = Key::new(key.granted().clone(), state);
        texts.push(keyring.text(key.id(), keyring.newest()));
        keys.push(key);
        products.push(product);
    }
    let shown: Vec<_> = keys
        .iter()
        .zip(&texts)
        .zip(&products)
        .map(|((key, text), product)| Shown { key, status: key.status(now), text, is_subscribed, product })
        .collect();
    let english = Language::default();
    Templates::default()
        .render(
            kind,
            (&shown, &email),
            (service(&MailLinks::of("https://shop.example", true, false), &Brand::default()), &english),
        )
        .unwrap()
}

fn service<'a>(links: &'a MailLinks, brand: &'a Brand) -> ServiceValues<'a> {
    ServiceValues { base_url: "https://shop.example", links, brand, shows_commands: false }
}

fn terms(days: i64, uses: i64) -> Terms {
    Terms { validity: Validity::from_days(days).unwrap(), limit: UseLimit::from_count(uses).unwrap() }
}

#[test]
fn an_email_of_each_kind_says_what_happened() {
    use MessageKind::{Expiring, Purchase, Resend, Revoked, Successor};
    let cases = [
        (Purchase, "en", "Your key for Field Guide", "Thank you for your purchase"),
        (Resend, "en", "Your key for Field Guide", "Here is your key again"),
        (Successor, "en", "Your new key for Field Guide", "The key that you had no longer works."),
        (Expiring, "en", "Your key for Field Guide expires on 21 November 2027", "Your key expires soon"),
        (Revoked, "en", "Your key for Field Guide is no longer valid", "Your payment was refunded"),
        (Purchase, "de", "Ihr Schlüssel für Field Guide", "Vielen Dank für Ihren Kauf"),
        (Resend, "de-AT", "Ihr Schlüssel für Field Guide", "Hier ist Ihr Schlüssel noch einmal"),
        (Successor, "de", "Ihr neuer Schlüssel für Field Guide", "Ihr bisheriger Schlüssel gilt nicht mehr."),
        (Expiring, "de", "Ihr Schlüssel für Field Guide läuft am 21. November 2027 ab", "Ihr Schlüssel läuft bald ab"),
        (Revoked, "de", "Ihr Schlüssel für Field Guide gilt nicht mehr", "Ihre Zahlung wurde erstattet"),
        (Purchase, "fr", "Your key for Field Guide", "Thank you for your purchase"),
    ];
    assert!(named().all(|kind| cases.iter().any(|(case, ..)| *case == kind)));
    for (kind, language, subject, says) in cases {
        let message = message(kind, &["Field Guide"], Terms::default(), 0, Some(language));
        assert_eq!(message.subject, subject);
        for body in [&message.text, &message.html] {
            for part in ["Field Guide", says, "{{7*7}}@example.com"] {
                assert!(body.contains(part), "{part} in {body}");
            }
            assert_eq!(body.contains("dlv_"), kind != Revoked, "{body}");
            assert!(!body.contains("?key=") && !body.contains("&key="), "no address with the key in it");
            assert!(!body.contains("src="), "nothing from elsewhere");
            assert_eq!(body.contains("key#dlv_"), kind != Revoked, "{body}");
        }
        let tag = if language.starts_with("de") { "de" } else { "en" };
        assert!(message.html.contains(&format!("<html lang=\"{tag}\">")), "{}", message.html);
    }
}

#[test]
fn links_are_written_plainly_and_left_alone_by_who_counts_clicks() {
    for kind in named() {
        for language in ["en", "de"] {
            let html = message(kind, &["A/B &#x2f; C"], Terms::default(), 0, Some(language)).html;
            assert!(html.contains("A/B &amp;#x2f; C") && !html.contains("&#x2f;"), "{html}");
            let links: Vec<&str> = html.split("<a ").skip(1).filter_map(|rest| rest.split('>').next()).collect();
            assert_eq!(links.len(), usize::from(kind != MessageKind::Revoked), "{html}");
            for link in links {
                let (marks, address) = link.split_once(" href=\"").unwrap();
                assert!(address.starts_with("https://shop.example/key#dlv_"), "{link}");
                for mark in ["clicktracking=\"off\"", "data-disable-tracking=\"true\"", "ses:no-track"] {
                    assert!(marks.contains(mark), "{mark} in {link}");
                }
            }
        }
    }
}

/// Stripe's order numbers have 66 characters, and none of them is a place to break the line.
#[test]
fn long_words_do_not_make_an_email_wider_than_a_phone() {
    for kind in named() {
        let html = message(kind, &["Guide"], Terms::default(), 0, None).html;
        let card = html.split("class=\"card\"").nth(1).and_then(|rest| rest.split('>').next()).unwrap();
        assert!(card.contains("overflow-wrap:anywhere;"), "{card}");
    }
}

#[test]
fn several_keys_come_in_one_email() {
    let message = message(MessageKind::Resend, &["Field Guide", "Atlas"], terms(30, 5), 2, None);
    assert_eq!(message.subject, "Your 2 keys");
    for body in [&message.text, &message.html] {
        for part in [
            "Here are your keys again",
            "Field Guide",
            "Atlas",
            "3 of 5 uses are left. Order 1001.",
            "3 of 5 uses are left. Order 1002.",
        ] {
            assert!(body.contains(part), "{part} in {body}");
        }
        // Each key occurs twice: as text, and in its link.
        assert_eq!(body.matches("dlv_").count(), 4, "{body}");
    }
}

#[test]
fn an_email_says_that_it_has_not_all_keys() {
    for (count, language, says) in [
        (200, "en", None),
        (201, "en", Some("These are your newest 200 keys.")),
        (201, "de", Some("Das sind Ihre neuesten 200 Schlüssel.")),
    ] {
        let message = message(MessageKind::Resend, &vec!["Atlas"; count], terms(30, 5), 0, Some(language));
        for body in [&message.text, &message.html] {
            assert_eq!(body.contains("200 keys.") || body.contains("200 Schlüssel."), says.is_some(), "{count}");
            assert!(says.is_none_or(|says| body.contains(says)), "{count} {language}");
            assert_eq!(body.matches("dlv_").count(), 400, "each key is its text, and in its link");
        }
    }
}

#[test]
fn values_are_neither_markup_nor_code() {
    for kind in named() {
        for names in [&["<script>alert('{{ key }}')</script>"][..], &["<script>{{ key }}</script>", "<b>"][..]] {
            let message = message(kind, names, Terms::default(), 0, None);
            assert!(message.html.contains("&lt;script&gt;"), "{}", message.html);
            assert!(message.html.contains("{{ key }}"), "{}", message.html);
            assert!(!message.html.contains("<script>") && !message.html.contains("<b>"));
            assert!(!message.text.contains("&lt;") && !message.subject.contains("&lt;"), "{}", message.text);
            // If a template escaped its own fragments, the e-mail would show their markup as text.
            assert!(!message.html.contains("&lt;td") && !message.html.contains("&lt;p "), "{}", message.html);
        }
    }
}

#[test]
fn terms_in_words() {
    for (terms, used, language, sentence) in [
        (terms(-1, -1), 0, "en", "It never expires. You can use it as often as you like."),
        (terms(1, 1), 0, "en", "It is valid until 22 November 2026, 10:00 UTC. You can use it once."),
        (terms(1, 3), 0, "en", "You can use it 3 times."),
        (terms(1, 3), 2, "en", "1 of 3 uses is left."),
        (terms(1, 3), 3, "en", "It is valid until 22 November 2026, 10:00 UTC. It is used up."),
        (terms(-1, -1), 0, "de", "Er läuft nie ab. Sie können ihn beliebig oft verwenden."),
        (terms(100, 1), 0, "de", "Er gilt bis zum 1. März 2027, 10:00 Uhr (UTC). Sie können ihn einmal verwenden."),
        (terms(1, 3), 3, "de", "Er ist aufgebraucht."),
        (terms(1, 3), 1, "de", "Sie können ihn noch 2-mal verwenden (insgesamt 3-mal)."),
    ] {
        let message = message(MessageKind::Purchase, &["x"], terms, used, Some(language));
        assert!(message.text.contains(&format!("{sentence}\n")), "{sentence} in {}", message.text);
        assert!(message.html.contains(sentence), "{sentence} in {}", message.html);
    }
}

#[test]
fn a_key_that_has_expired_is_not_called_valid_and_one_that_a_subscription_renews_has_no_date_until_then() {
    for (age, terms, language, sentence) in [
        ((1, false), terms(1, -1), "en", "It expired on 22 November 2026, 10:00 UTC."),
        ((1, false), terms(1, 1), "de", "Er ist am 22. November 2026 um 10:00 Uhr (UTC) abgelaufen."),
        ((30, true), terms(30, 1), "en", "It expired on 21 December 2026, 10:00 UTC."),
        ((30, true), terms(30, -1), "de", "Er ist am 21. Dezember 2026 um 10:00 Uhr (UTC) abgelaufen."),
        ((0, true), terms(30, 1), "en", "It is valid as long as your subscription runs. You can use it once."),
        ((0, true), terms(30, 1), "de", "Er gilt, solange Ihr Abonnement läuft. Sie können ihn einmal verwenden."),
        ((0, true), terms(-1, -1), "en", "It never expires. You can use it as often as you like."),
    ] {
        for kind in [MessageKind::Purchase, MessageKind::Resend, MessageKind::Successor] {
            let message = message_after(age, kind, &["x"], (terms, 0), Some(language));
            assert!(message.text.contains(&format!("{sentence}\n")), "{sentence} in {}", message.text);
            assert!(message.html.contains(sentence), "{sentence} in {}", message.html);
        }
    }
}

#[test]
fn faulty_templates_are_refused_at_once() {
    let whole =
        |text: &'static str| vec![("expiring.fr.subject", "x"), ("expiring.fr.txt", text), ("expiring.fr.html", "x")];
    for (templates, refused) in [
        (vec![("purchase.subject", "{{ product.name }}")], None),
        (vec![("purchase.de.html", "{{ key }} {{ keys[0].ends.time if ends }}")], None),
        (vec![("purchase.html", "{% include '_mine.html' %}"), ("_mine.html", "{{ key }}")], None),
        (whole("{{ key }}"), None),
        (whole("{{ kye }}"), Some("expiring.fr.txt of e-mails is unusable")),
        (vec![("purchase.fr.subject", "x")], Some("purchase.fr.txt of e-mails is missing")),
        (vec![("purchase.DE.html", "{{ kye }}")], Some("purchase.de.html of e-mails is unusable")),
        (vec![("purchase.subject", "{{ product.name")], Some("purchase.subject of e-mails is unusable")),
        (vec![("purchase.html", "{% if %}")], Some("is unusable")),
        (vec![("purchase.html", "{% include 'nowhere' %}")], Some("is unusable")),
        // `ends` is none for a key that never expires.
        (vec![("purchase.txt", "{{ ends.day }}")], Some("is unusable")),
        (vec![("_layout.html", "{{ nothing }}")], Some("is unusable")),
        (vec![("purchase.subject", "{{ '' }}\n")], Some("purchase.subject of e-mails is empty")),
        (vec![("purchase.htm", "x")], Some("purchase.htm of e-mails has a name that no template has")),
        (vec![("bought.html", "x")], Some("has a name")),
        (vec![("purchase.en.html", "x")], Some("has a name")),
        (vec![("purchase", "x")], Some("has a name")),
    ] {
        let said = Templates::replacing(templates.clone()).err().map(|error| error.to_string());
        let fits = match (&said, refused) {
            (None, None) => true,
            (Some(said), Some(refused)) => said.contains(refused),
            _ => false,
        };
        assert!(fits, "{templates:?}: {said:?}");
    }
}

#[test]
fn a_language_is_spoken_if_it_has_templates() {
    let ours = Templates::default();
    for (language, speaks) in [("en", true), ("en-gb", true), ("de", true), ("de-AT", true), ("fr", false)] {
        assert_eq!(ours.speak(&language.parse().unwrap()), speaks, "{language}");
    }
    let theirs = ["subject", "txt", "html"].map(|part| (format!("purchase.pt-BR.{part}"), "x"));
    assert!(Templates::replacing(theirs).unwrap().speak(&"pt-BR".parse().unwrap()));
}

#[test]
fn a_folder_replaces_ours() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    write("purchase.subject", b"Mine: {{ product.name }}");
    write(".DS_Store", b"\xff");
    assert!(Templates::from_folder(folder.path()).is_ok());
    write("README", b"what these files are");
    assert!(Templates::from_folder(folder.path()).is_err());
    std::fs::remove_file(folder.path().join("README")).unwrap();
    write("purchase.txt", b"\xff");
    assert!(Templates::from_folder(folder.path()).is_err());
    assert!(Templates::from_folder(folder.path().join("none")).is_err());
}

#[test]
fn the_command_is_for_products_of_type_api_or_for_all_or_where_there_is_no_page() {
    let (page, none) =
        (MailLinks::of("https://shop.example", true, false), MailLinks::of("https://shop.example", false, false));
    for (kind, links, shows_commands, is_shown) in [
        ("api", &page, false, true),
        ("digital", &page, false, false),
        ("digital", &page, true, true),
        ("digital", &none, false, true),
    ] {
        let brand = Brand::default();
        let service = ServiceValues { shows_commands, ..service(links, &brand) };
        let Rendered { text, html, .. } = purchase(kind, service);
        for body in [text, html] {
            assert_eq!(body.contains("curl"), is_shown, "{kind}: {body}");
        }
    }
}

#[test]
fn an_email_is_the_shops() {
    let brand = Brand::default().name("Ada's <books>").reply_to("help@ada.example".parse().unwrap());
    let brand = Brand { colours: Some(["#aa0000", "#ffffff"].map(str::to_owned)), ..brand };
    let links = MailLinks::of("https://shop.example", true, true);
    let Rendered { text, html, .. } = purchase("digital", service(&links, &brand));
    for part in
        ["Ada's <books>, help@ada.example", "Order 1001.", "Lost your key? Get it again: https://shop.example/key/lost"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    for part in [
        "background:#aa0000;",
        "mailto:help@ada.example",
        "Order 1001.",
        "href=\"https://shop.example/key/lost\"",
        "Ada&#x27;s &lt;books&gt;",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
}

/// Renders the e-mail about order 1001 for a product of this type.
fn purchase(kind: &str, service: ServiceValues<'_>) -> Rendered {
    let keyring = Keyring::new(Prefix::default(), &["0123456789abcdef".parse().unwrap()]).unwrap();
    let email: Email = "ada@example.com".parse().unwrap();
    let product = Product::new(ProductId::new(1).unwrap(), NewProduct::new("Guide").unwrap().kind(kind).unwrap());
    let (id, at) = (KeyId::from_bytes([1; 16]), DateTime::UNIX_EPOCH);
    let granted = NewKey::on_terms((id, keyring.newest()), product.id(), email.clone(), Terms::default(), at);
    let order = OrderRef { source: Source::webhook(), id: "1001".parse().unwrap() };
    let key = Key::from(NewKey { order: Some(order), ..granted });
    let text = keyring.text(id, keyring.newest());
    let shown = Shown { key: &key, status: key.status(at), text: &text, is_subscribed: false, product: &product };
    Templates::default().render(MessageKind::Purchase, (&[shown], &email), (service, &Language::default())).unwrap()
}
