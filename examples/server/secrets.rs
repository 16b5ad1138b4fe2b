//! Secrets: configured, or made on the first start and kept in a file that only its owner reads.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use delivery_core::key::Keyring;
use delivery_core::secret::{AdminToken, WebhookSecret};
use delivery_core::{Entropy, SystemEntropy};

use super::Refusal;
use super::settings::{Settings, read};

const NAMES: [&str; 3] = ["WEBHOOK_SECRET", "ADMIN_TOKEN", "KEY_SECRET"];

/// The secrets in use.
pub struct Secrets {
    pub webhook: WebhookSecret,
    pub admin: AdminToken,
    pub keyring: Keyring,
    /// The file of generated secrets.
    pub file: PathBuf,
    /// The names of those made by this start.
    pub made: Vec<&'static str>,
    /// The names of those that were configured, and are not in the file.
    pub configured: Vec<&'static str>,
}

impl Secrets {
    /// Takes what is configured, then what is in the file; makes what is left, and keeps it.
    pub fn load(settings: &Settings) -> Result<Self, Refusal> {
        let file = settings.data_dir.join("secrets.env");
        let configured = [&settings.webhook_secret, &settings.admin_token, &settings.key_secret];
        let configured: BTreeMap<&str, String> =
            NAMES.into_iter().zip(configured).filter_map(|(name, value)| Some((name, value.clone()?))).collect();
        let mut kept = kept(&file)?;
        let made: Vec<_> =
            NAMES.into_iter().filter(|name| !configured.contains_key(name) && !kept.contains_key(*name)).collect();
        for name in &made {
            kept.insert((*name).to_owned(), random());
        }
        let value = |name: &str| configured.get(name).or(kept.get(name)).cloned().unwrap_or_default();
        let [webhook, admin, ring] = NAMES.map(|name| (name, value(name)));
        let webhook = read(webhook.0, &webhook.1, str::parse)?;
        let admin = read(admin.0, &admin.1, str::parse)?;
        let keyring = read(ring.0, &ring.1, str::parse)?;
        if !made.is_empty() {
            keep(&file, &kept).map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
        }
        let configured = NAMES.into_iter().filter(|name| configured.contains_key(name)).collect();
        Ok(Self { webhook, admin, keyring, file, made, configured })
    }

    /// Takes back a file that this start made: the database knows other secrets, and a file that does not fit it would
    /// only mislead.
    pub fn forget(&self) {
        if self.made.len() == NAMES.len() {
            // Nothing is lost if it stays.
            let _ = fs::remove_file(&self.file);
        }
    }
}

fn kept(file: &Path) -> Result<BTreeMap<String, String>, Refusal> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(format!("{} cannot be read: {error}", file.display()).into()),
    };
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    Ok(lines.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect())
}

fn keep(file: &Path, secrets: &BTreeMap<String, String>) -> std::io::Result<()> {
    let unfinished = file.with_extension("tmp");
    // A file of that name, or a link, that somebody else laid there is not written through.
    if let Err(error) = fs::remove_file(&unfinished)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut out = options.create_new(true).write(true).open(&unfinished)?;
    writeln!(out, "# Made on first start. Keep it: without KEY_SECRET every key that was sold is invalid.")?;
    for (name, value) in secrets {
        writeln!(out, "{name}={value}")?;
    }
    out.sync_all()?;
    fs::rename(&unfinished, file)?;
    File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// 256 random bits.
fn random() -> String {
    let mut bytes = [0; 32];
    SystemEntropy::default().fill(&mut bytes);
    data_encoding::BASE32_DNSSEC.encode(&bytes)
}
