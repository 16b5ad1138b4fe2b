//! Imports sales that were made elsewhere from a CSV file, and reports what became of each row.

use std::fs;
use std::io::{self, IsTerminal, Read, Write, stderr, stdin, stdout};
use std::path::Path;

use csv::Writer;
use delivery_core::delivery::{Import, ImportError, ImportSummary};
use delivery_core::store::inspection::Schema;
use delivery_core::{Delivery, explain};
use indicatif::{ProgressBar, ProgressStyle};

use super::check;
use crate::Refusal;
use crate::settings::Settings;
use crate::start::assemble::{assemble, assemble_dry};
use crate::start::secrets::Found;

/// Imports the file `sales`, or standard input if that is `-`. Fails if a row is refused.
pub(super) async fn run(settings: &Settings, sales: &Path, options: Import) -> Result<(), Refusal> {
    settings.expect_database()?;
    let rows = read(sales).map_err(|error| format!("{} cannot be read: {error}", sales.display()))?;
    let delivery = if options.dry_run {
        rehearsal(settings).await?
    } else {
        assemble(settings, settings.listen.bind).await?.delivery
    };
    let bar = bar(&rows);
    let mut report = Writer::from_writer(stdout());
    let mut written = report.write_record(["row", "order_id", "outcome", "key_id", "reason"]);
    let mut so_far = ImportSummary::default();
    let imported = delivery.import(&rows[..], options, |row| {
        so_far.count(row.outcome);
        bar.set_position(row.line);
        if written.is_ok() {
            let (line, key) = (row.line.to_string(), row.key.map(|key| key.to_string()));
            let [key, reason] = [key, row.reason].map(Option::unwrap_or_default);
            written = report.write_record([line.as_str(), &row.order, row.outcome.as_str(), &key, &reason]);
        }
    });
    let imported = imported.await;
    bar.finish_and_clear();
    delivery.close().await;
    written.map_err(io::Error::from).and_then(|()| report.flush())?;
    let summary = imported.map_err(|error| broken_off(&error, &so_far, options))?;
    let _ = writeln!(stderr(), "{}", told(&summary, options));
    if summary.is_complete() { Ok(()) } else { Err("not all rows are in: the report says why".into()) }
}

/// Assembles the service for a dry run. A start may make a store and secrets, migrate the store, and register secrets
/// in it. A dry run changes nothing, so it is refused if there is no store of this version that accepts the secrets.
async fn rehearsal(settings: &Settings) -> Result<Delivery, Refusal> {
    let keyring = Found::look(settings)?.into_keyring();
    let keyring = keyring.ok_or("a dry run needs KEY_SECRET (--key-secret), and makes none")?;
    let found = check::inspect(settings, &keyring.fingerprints()).await?;
    if found.schema != Schema::Current {
        return Err(
            "a dry run changes nothing, and there is no store of this version yet: start the server first".into()
        );
    }
    check::database(settings, found, false)?;
    assemble_dry(settings, keyring).await
}

fn read(sales: &Path) -> io::Result<Vec<u8>> {
    if sales.as_os_str() != "-" {
        return fs::read(sales);
    }
    let mut rows = Vec::new();
    stdin().read_to_end(&mut rows)?;
    Ok(rows)
}

fn told(summary: &ImportSummary, options: Import) -> String {
    if *summary == ImportSummary::default() {
        return "the file has a header row and no sales".to_owned();
    }
    let ImportSummary { issued, existing, refunded, refused, .. } = summary;
    let would = if options.dry_run { "nothing was changed; it would be: " } else { "" };
    format!("{would}{issued} keys issued, {existing} there before, {refunded} orders refunded, {refused} rows refused")
}

/// Says why an import broke off, which rows are in, and how to continue it.
fn broken_off(error: &ImportError, so_far: &ImportSummary, options: Import) -> Refusal {
    let error = explain(error);
    if *so_far == ImportSummary::default() {
        return error.into();
    }
    let again = "; to continue, import the file again: sales that are in stay as they are";
    format!("{error}; before that: {}{}", told(so_far, options), if options.dry_run { "" } else { again }).into()
}

/// A progress bar, hidden unless standard error is a terminal and the report goes elsewhere.
fn bar(rows: &[u8]) -> ProgressBar {
    if !stderr().is_terminal() || stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let lines = rows.split(|byte| *byte == b'\n').count();
    let template = "{bar:36} line {human_pos} of {human_len}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(lines.try_into().unwrap_or(u64::MAX)).with_style(style)
}
