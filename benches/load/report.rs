//! Medians of rounds, with their range, as a table.

use std::collections::HashMap;

use crate::wrk::Measured;

type Name = &'static str;
/// What each contender did, in each round.
type Rows = Vec<(Name, Vec<Measured>)>;

#[derive(Default)]
pub struct Report {
    rounds: HashMap<(Name, u32), Rows>,
}

impl Report {
    pub fn add(&mut self, scenario: Name, connections: u32, contender: Name, measured: Measured) {
        let rows = self.rounds.entry((scenario, connections)).or_default();
        match rows.iter_mut().find(|(name, _)| *name == contender) {
            Some((_, rounds)) => rounds.push(measured),
            None => rows.push((contender, vec![measured])),
        }
    }

    /// Ratios are of the medians, to the first row.
    pub fn print(&self, scenario: Name, connections: u32) {
        let rows = &self.rounds[&(scenario, connections)];
        let first = middle(&rows[0].1, |round| round.per_second);
        println!("\n{scenario}, {connections} connections\n");
        println!("| server | requests/s | range | to the first | µs of processor | p50, µs | p99, µs |");
        println!("|---|--:|--:|--:|--:|--:|--:|");
        for (contender, rounds) in rows {
            let speed = middle(rounds, |round| round.per_second);
            let least = rounds.iter().map(|round| round.per_second).fold(f64::INFINITY, f64::min);
            let most = rounds.iter().map(|round| round.per_second).fold(0.0, f64::max);
            println!(
                "| {contender} | {speed:.0} | {least:.0}–{most:.0} | {:.2} | {:.1} | {:.0} | {:.0} |",
                speed / first,
                middle(rounds, |round| round.processor),
                middle(rounds, |round| round.median),
                middle(rounds, |round| round.p99),
            );
        }
    }
}

fn middle(rounds: &[Measured], figure: impl Fn(&Measured) -> f64) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
