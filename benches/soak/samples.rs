//! What servers and files need over time.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// A moment: seconds since the begin, and bytes.
pub type Sample = (f64, f64);

/// The samples of all shops, a line each.
pub struct File(Mutex<fs::File>);

impl File {
    pub fn create(path: &Path) -> Self {
        let mut file = fs::File::create(path).unwrap();
        writeln!(file, "seconds,shop,what,bytes").unwrap();
        Self(Mutex::new(file))
    }

    pub fn add(&self, shop: &str, what: &str, (seconds, bytes): Sample) {
        writeln!(self.0.lock().unwrap(), "{seconds:.0},\"{shop}\",{what},{bytes:.0}").unwrap();
    }
}

/// What a process has in memory, in bytes; none if it has ended.
pub fn resident(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().split(' ').next()?.parse::<f64>().ok()? * 1024.0)
}

/// The size of a file, 0 if there is none.
pub fn size(path: &Path) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "no file here has as many bytes as a float can count")]
    fs::metadata(path).map_or(0.0, |file| file.len() as f64)
}

/// The size of all files of a folder.
pub fn folder(path: &Path) -> f64 {
    let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| if entry.path().is_dir() { folder(&entry.path()) } else { size(&entry.path()) }).sum()
}

/// Bytes an hour that samples rise by, in the second half of the time, when caches are full: the straight line of the least squares.
pub fn slope(samples: &[Sample]) -> f64 {
    let Some(&(last, _)) = samples.last() else { return 0.0 };
    let later: Vec<Sample> = samples.iter().copied().filter(|(seconds, _)| *seconds >= last / 2.0).collect();
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let count = later.len() as f64;
    let mean = |of: fn(&Sample) -> f64| later.iter().map(of).sum::<f64>() / count;
    let (time, bytes) = (mean(|sample| sample.0), mean(|sample| sample.1));
    let products: f64 = later.iter().map(|sample| (sample.0 - time) * (sample.1 - bytes)).sum();
    let squares: f64 = later.iter().map(|sample| (sample.0 - time).powi(2)).sum();
    3600.0 * products / squares
}
