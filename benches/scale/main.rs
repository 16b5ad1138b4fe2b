//! What a store of ten million keys costs, beside one of ten thousand: `cargo bench -p delivery-benches
//! --bench scale -- 10000 1000000 10000000`
//! takes some ten minutes and 12 GB of disk. Ten thousand keys fit into memory and into few pages; from a million on, the
//! columns differ by the depth of an index, or something is wrong.

mod desk;
mod fill;
mod measure;
mod variety;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Parser;
use serde::{Deserialize, Serialize};

/// What a store of ten million keys costs, beside one of ten thousand
#[derive(Parser)]
struct Arguments {
    /// How many keys
    keys: Vec<i64>,
    /// Measure this store, which has so many keys: what this program calls itself with, so that memory counts from nothing
    #[arg(long, hide = true)]
    measure: Option<String>,
    /// Where the stores are made: in the target folder, unless this says otherwise
    #[arg(long, default_value = env!("CARGO_TARGET_TMPDIR"))]
    folder: PathBuf,
    /// Only this store: sqlite or postgres
    #[arg(long)]
    store: Option<String>,
    /// What `cargo bench` says
    #[arg(long, hide = true)]
    bench: bool,
    /// What `cargo bench -- --test` says
    #[arg(long, hide = true)]
    test: bool,
}

/// A line of the table.
#[derive(Serialize, Deserialize)]
struct Figure {
    what: String,
    /// None if it was given up.
    value: Option<f64>,
    unit: String,
}

fn figure(what: &str, value: f64, unit: &str) -> Figure {
    Figure { what: what.to_owned(), value: Some(value).filter(|value| value.is_finite()), unit: unit.to_owned() }
}

fn main() {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let (Some(url), &[keys, ..]) = (&arguments.measure, &arguments.keys[..]) {
        let figures = runtime.block_on(measure::store(url, keys));
        println!("{}", serde_json::to_string(&figures).unwrap());
        return;
    }
    if arguments.keys.is_empty() {
        println!("nothing is measured: say how many keys, such as -- 10000 1000000 10000000");
        return;
    }
    let is_measured = |store| arguments.store.as_deref().is_none_or(|only| only == store);
    if is_measured("sqlite") {
        sqlite(&runtime, &arguments);
    }
    if is_measured("postgres") {
        postgres(&runtime, &arguments);
    }
}

fn sqlite(runtime: &tokio::runtime::Runtime, arguments: &Arguments) {
    let folder = tempfile::tempdir_in(&arguments.folder).unwrap();
    let mut columns = Vec::new();
    for &keys in &arguments.keys {
        let file = folder.path().join(format!("{keys}.db"));
        let took = runtime.block_on(fill::sqlite(&file, keys));
        runtime.block_on(variety::sqlite(&file));
        let size = fs::metadata(&file).unwrap().len();
        columns.push(column(&format!("sqlite://{}", file.display()), keys, took, size));
    }
    table("SQLite", &arguments.keys, &columns);
}

fn postgres(runtime: &tokio::runtime::Runtime, arguments: &Arguments) {
    if !support::programs::is_there("postgres") {
        println!("LEFT OUT: PostgreSQL, which is not on this machine");
        return;
    }
    let server = support::postgres::postgres();
    let mut columns = Vec::new();
    for &keys in &arguments.keys {
        let (url, took, size) = runtime.block_on(fill::postgres(&server.url(), &support::postgres::unique(), keys));
        runtime.block_on(variety::postgres(&url));
        columns.push(column(&url, keys, took, size));
    }
    table("PostgreSQL", &arguments.keys, &columns);
}

/// Measures a filled store in a process of its own.
#[expect(clippy::cast_precision_loss, reason = "figures for a table")]
fn column(url: &str, keys: i64, took: Duration, size: u64) -> Vec<Figure> {
    let program = std::env::current_exe().unwrap();
    let mut measure = Command::new(program);
    measure.args(["--measure", url, &keys.to_string()]).stderr(Stdio::inherit());
    let measured = measure.output().unwrap();
    assert!(measured.status.success());
    let mut figures = vec![
        figure(
            "keys filled, with a use, an e-mail, an event and a payment each",
            keys as f64 / took.as_secs_f64() / 1e3,
            "k/s",
        ),
        figure("size", size as f64 / 1e6, "MB"),
        figure("size of a key", size as f64 / keys as f64, "bytes"),
    ];
    let measured: Vec<Figure> = serde_json::from_slice(&measured.stdout).unwrap();
    figures.extend(measured);
    figures
}

fn table(store: &str, sizes: &[i64], columns: &[Vec<Figure>]) {
    println!("\n| {store}, keys: | {} |", sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(" | "));
    println!("|---|{}", "--:|".repeat(columns.len()));
    for (index, first) in columns[0].iter().enumerate() {
        let show = |column: &Vec<Figure>| column[index].value.map_or("–".to_owned(), |value| format!("{value:.1}"));
        let values: Vec<String> = columns.iter().map(show).collect();
        println!("| {}, {} | {} |", first.what, first.unit, values.join(" | "));
    }
}

/// Bytes of this process in memory, as the kernel tells.
fn resident() -> f64 {
    let pages = fs::read_to_string(Path::new("/proc/self/statm")).ok();
    let pages = pages.and_then(|told| told.split(' ').nth(1)?.parse::<f64>().ok());
    pages.unwrap_or(f64::NAN) * 4096.0
}
