use super::*;

#[test]
fn every_template_of_ours_is_there() {
    let look = Look::default();
    for (name, source) in ours::ALL {
        Environment::new().add_template(name, source).unwrap();
        assert!(look.environment.get_template(name).is_ok(), "{name}");
    }
}

#[test]
fn the_shop_is_named_and_escaped() {
    let email: Email = "help@example.com".parse().unwrap();
    let look = Look::default().name("<b>Ada's</b>").unwrap().support(email);
    let values = context! { title => "x", message => "<i>", back => "", back_name => "" };
    let html = look.render("error.html", "/shop", values).unwrap();
    for part in ["&lt;b&gt;Ada", "mailto:help@example.com", "&lt;i&gt;", "style.css?v="] {
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
    let html = look.render("error.html", "", context! { message => "<>" }).unwrap();
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
    let address =
        |look: &Look| look.render("error.html", "", context! { title => "", message => "", back => "" }).unwrap();
    let version = |look: &Look| address(look).split("style.css?v=").nth(1).unwrap()[..12].to_owned();
    assert_ne!(version(&blue), version(&red));
    assert!(red.style().starts_with(b":root{--accent:#aa0000;"));
}
