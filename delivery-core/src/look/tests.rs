use super::*;

#[test]
fn the_shop_is_named_and_escaped() {
    let email: Email = "help@example.com".parse().unwrap();
    let look = Look::default().name("<b>Ada's</b>").unwrap().support(email);
    let values = context! { status => 404, back => "/<i>", to => "key" };
    let html = look.render("error.html", ("/shop", &Language::default()), values).unwrap();
    for part in ["&lt;b&gt;Ada", "mailto:help@example.com", "&lt;i&gt;", "style.css?v=", "There is no such page"] {
        assert!(html.contains(part), "{part} in {html}");
    }
    assert!(!html.contains("<b>") && !html.contains("<i>") && !html.contains("<script"), "{html}");
    for name in ["", " ", "a\nb", &"x".repeat(101)] {
        assert!(Look::default().name(name).is_err(), "{name:?}");
    }
}

#[test]
fn templates_are_replaced_and_checked() {
    let look = Look::default().replacing([("error.html", "{{ message }}!")]).unwrap();
    let html = look.render("error.html", ("", &Language::default()), context! { message => "<>" }).unwrap();
    assert_eq!(html, "&lt;&gt;!");
    for (name, source, fault) in [
        ("error.html", "{{", "the template error.html of pages is unusable"),
        ("error.txt", "x", "the template error.txt of pages has a name that does not end with .html"),
    ] {
        assert_eq!(Look::default().replacing([(name, source)]).unwrap_err().to_string(), fault);
    }
}

#[test]
fn the_stylesheet_has_another_address_in_another_colour() {
    let (blue, red) = (Look::default(), Look::default().colour("#aa0000".parse().unwrap()));
    let address = |look: &Look| {
        look.render("error.html", ("", &Language::default()), context! { status => 404, back => "", to => "key" })
            .unwrap()
    };
    let version = |look: &Look| address(look).split("style.css?v=").nth(1).unwrap()[..12].to_owned();
    assert_ne!(version(&blue), version(&red));
    assert!(red.style().starts_with(b":root{--accent:#aa0000;"));
}

#[test]
fn buyers_are_shown_their_language_or_one_that_is_spoken() {
    let english = built_in::ALL.iter().find(|(name, _)| *name == "_words.html").unwrap().1;
    let look = Look::default().replacing([("_words.fr.html", english)]).unwrap();
    for (wanted, spoken) in [
        (&["de-AT"][..], "de"),
        (&["ja", "de"], "de"),
        (&["fr-CA", "de"], "fr"),
        (&["ja"], "en"),
        (&["en-GB", "de"], "en"),
        (&[], "en"),
    ] {
        let wanted = wanted.iter().map(|tag| tag.parse().unwrap());
        assert_eq!(look.spoken(wanted).as_str(), spoken);
    }
}

#[test]
fn words_are_whole_and_have_a_language() {
    let english = built_in::ALL.iter().find(|(name, _)| *name == "_words.html").unwrap().1;
    let lacking = english.replace("macro send()", "macro sned()");
    for (name, source, fault) in [
        ("_words.pt-BR.html", english, "has a name without a language in lower case"),
        ("_words.x.html", english, "has a name without a language in lower case"),
        ("_words.fr.html", &lacking, "lacks a macro of _words.html"),
        ("_words.html", &lacking, "lacks a macro of _words.html"),
    ] {
        let refused = Look::default().replacing([(name, source)]).unwrap_err().to_string();
        assert_eq!(refused, format!("the template {name} of pages {fault}"));
    }
}

/// Returns the names of the macros of a template, each with its parameters.
fn macros(source: &str) -> Vec<String> {
    source
        .lines()
        .filter_map(|line| {
            line.strip_prefix("{% macro ")?.split('%').next().map(|it| it.trim_end_matches('-').trim().to_owned())
        })
        .collect()
}

#[test]
fn every_language_says_the_same() {
    let source = |name| built_in::ALL.iter().find(|(template, _)| *template == name).unwrap().1;
    assert_eq!(macros(source("_words.de.html")), macros(source("_words.html")));
}
