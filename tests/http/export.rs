//! Lists as tables, and what is known of one person.

use crate::row::{Row, row};

const ORDER: &str = r#"{"order_id":"A-1","product_id":1,"customer_email":"ada@example.com","secret":"{SECRET}"}"#;
const SALE: &str = "sale_id=S-1&resource_name=sale&short_product_id=atlas&email=Ada%40EXAMPLE.com&quantity=2";
const WHAT: &str = "what must be keys, uses, events, inbox, messages or person.";

pub fn rows() -> Vec<Row> {
    let export =
        |name: &str, query: &str| row(format!("export::{name}"), format!("GET /api/admin/export{query}")).with_token();
    let page = |name: &str, query: &str| row(format!("export::{name}"), format!("GET /desk/export{query}")).at_desk();
    vec![
        export("keys", "?what=keys"),
        export("keys_that_match", "?what=keys&status=revoked&product_id=1"),
        export("keys_of_which_none_matches", "?what=keys&email=nobody@example.com"),
        export("keys_of_an_address", "?what=keys&email=ADA@example.com").after_order(ORDER),
        export("uses", "?what=uses"),
        export("uses_of_keys_that_match", "?what=uses&status=exhausted"),
        export("events", "?what=events"),
        export("events_of_a_key", "?what=events&key_id={REVOKED_ID}"),
        export("inbox", "?what=inbox").after_event(SALE),
        export("inbox_of_another_outcome", "?what=inbox&outcome=issued").after_event(SALE),
        export("messages", "?what=messages").after_order(ORDER),
        export("messages_that_failed", "?what=messages&state=failed").after_order(ORDER),
        export("a_cell_that_would_be_a_formula", "?what=keys&order_id==1%2B1")
            .after_order(ORDER.replace("A-1", "=1+1")),
        export("a_cell_with_quotes_and_commas", "?what=keys&order_id=A%22,B")
            .after_order(ORDER.replace("A-1", "A\\\",B")),
        export("a_person", "?what=person&customer_email=ADA@example.com").after_order(ORDER),
        export("a_person_whose_event_waits", "?what=person&customer_email=ada@example.com").after_event(SALE),
        export("a_person_whom_nobody_knows", "?what=person&customer_email=nobody@example.com"),
        export("a_person_without_an_address", "?what=person").missing("customer_email"),
        export("a_person_with_no_address", "?what=person&customer_email=ada")
            .invalid("customer_email must be an e-mail address such as buyer@example.com."),
        export("without_what", "").missing("what"),
        export("what_is_none", "?what=products").invalid(WHAT),
        export("a_filter_that_is_none", "?what=keys&status=lost")
            .invalid("status must be valid, expired, exhausted or revoked."),
        export("a_filter_of_another_list_that_is_none", "?what=keys&state=lost")
            .invalid("state must be queued, sent or failed."),
        row("export::head", "HEAD /api/admin/export?what=keys").with_token(),
        page("keys_at_the_desk", "?what=keys&status=revoked"),
        page("no_person_by_an_address_in_a_url", "?what=person&customer_email=ada@example.com").page("400 Bad Request"),
        row("export::by_a_form", "POST /desk/export").sends("what=keys").page("400 Bad Request"),
        row("export::without_a_session", "GET /desk/export?what=keys")
            .leads_to("/desk/sign-in?next=%2Fdesk%2Fexport%3Fwhat%3Dkeys"),
        row("export::a_person_at_the_desk", "POST /desk/erase")
            .after_order(ORDER)
            .sends("email=ada%40example.com&do=download"),
        row("export::a_person_with_no_address_at_the_desk", "POST /desk/erase")
            .sends("email=ada&do=download")
            .like("desk_erase::nobody")
            .but("BUYER", "ada"),
    ]
}
