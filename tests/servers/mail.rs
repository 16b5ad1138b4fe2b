//! E-mails of the servers: what a mistake in the settings costs, and whose clock counts.

use std::time::Duration;

use support::faketime;
use support::postgres::postgres;
use support::process::{Server, Site, configured};
use support::smtp::{Script, SmtpServer};
use support::wait_for;

/// Settings of a server that sends by this one.
fn by(mail: &SmtpServer) -> Vec<(&str, &str)> {
    configured(&[("SMTP_URL", &mail.url)])
}

fn sell(server: &Server, orders: usize) {
    assert_eq!(server.add_product().0, 200);
    for order in 0..orders {
        server.sell(&order.to_string());
    }
}

pub fn what_failed_is_sent_when_the_settings_are_mended_and_by_hand(site: &Site) {
    let strict = SmtpServer::alone(Script::At("RCPT", b"550 5.1.1 no such user\r\n"));
    let server = site.start(&by(&strict));
    sell(&server, 5);
    let failed = |server: Server| {
        // Each is refused once, for good.
        wait_for(Duration::from_secs(30), || strict.recipients().len() == 5);
        server.terminate()
    };
    assert!(failed(server).contains("failed"));
    // The same settings again: nothing has changed.
    site.start(&by(&strict)).terminate();
    assert_eq!(strict.recipients().len(), 5);
    // By hand.
    site.says(&by(&strict), &["retry"], "5 e-mails");
    let server = site.start(&by(&strict));
    wait_for(Duration::from_secs(30), || strict.recipients().len() == 10);
    server.terminate();
    // Another mail server.
    let kind = SmtpServer::alone(Script::Accept);
    let server = site.start(&by(&kind));
    wait_for(Duration::from_secs(30), || kind.received().len() == 5);
    server.terminate();
}

/// In real time: leases end. One server's clock is a year ahead.
#[test]
#[cfg_attr(any(without = "postgres", without = "faketime"), ignore = "needs postgres and faketime")]
fn a_server_with_a_wrong_clock_holds_no_email_back() {
    // The program itself would stand between the server and its end.
    let (url, library) = (postgres().database(), faketime::library());
    let (silent, kind) = (SmtpServer::alone(Script::Silence), SmtpServer::alone(Script::Accept));
    let sites = [Site::new("axum_server"), Site::new("rocket_server")];
    let by = |smtp| [("DATABASE_URL", &*url), ("SMTP_URL", smtp), ("MAIL_LEASE", "6")];
    let mut ahead = sites[0].command(&configured(&by(&silent.url)));
    ahead.env("LD_PRELOAD", library).env("FAKETIME", "+365d");
    let wrong = Server::start(ahead);
    sell(&wrong, 5);
    wait_for(Duration::from_secs(30), || silent.connections() >= 5);
    wrong.kill();
    let right = sites[1].start_with(&by(&kind.url));
    wait_for(Duration::from_secs(30), || kind.received().len() == 5);
    right.terminate();
}
