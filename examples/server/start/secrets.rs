//! Secrets: configured, or made on the first start and kept in a file that only its owner can read.
//!
//! A start only adds to the file, and makes no secrets for a database that already has keys. It writes a new signing
//! secret to a staged file before it registers the secret with the database. If the database rejects the secret, the
//! staged file is deleted. If the server crashes in between, the next start continues from the staged file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use delivery_core::key::{Fingerprint, Keyring, Prefix};
use delivery_core::secret::{AdminToken, WebhookSecret};
use delivery_core::store::{KeyQuery, Ledger, StoreError};
use delivery_core::{Entropy, SystemEntropy};

use super::dotenv;
use super::private::make_private;
use crate::Refusal;
use crate::settings::Settings;
use crate::settings::refusal::{read, refusal};

const SIGNING: &str = "KEY_SECRET";
const NAMES: [&str; 3] = ["WEBHOOK_SECRET", "ADMIN_TOKEN", SIGNING];
/// The prefix of keys. It is not secret, but keys signed with another prefix are invalid.
const PREFIX: &str = "KEY_PREFIX";
/// How often to try the lock, once per `STEP`, while another server makes its secrets: 30 seconds in all.
const PATIENCE: u32 = 300;
const STEP: Duration = Duration::from_millis(100);

/// The secrets in use. The signing secrets are registered with the store.
pub(crate) struct Secrets {
    pub webhook: WebhookSecret,
    pub admin: AdminToken,
    pub keyring: Keyring,
    /// The file of generated secrets.
    pub file: PathBuf,
    /// The names of the secrets that this start made.
    pub made: Vec<&'static str>,
    /// The names of the secrets that are configured, and so not taken from the file.
    pub configured: Vec<&'static str>,
}

type Values = BTreeMap<String, String>;

impl Secrets {
    /// Uses the configured secrets first, then those in the file, and makes the missing ones.
    pub(crate) async fn load(settings: &Settings, ledger: &dyn Ledger) -> Result<Self, Refusal> {
        let file = settings.data_dir.join("secrets.env");
        // If the file is a symbolic link, its target is replaced, and the link stays.
        let file = file.canonicalize().unwrap_or(file);
        let given = given(settings);
        let (_, kept) = contents(&file)?;
        let made = if missing(&given, &kept).is_empty() {
            register(&keyring(&given, &kept)?, ledger, &file).await?;
            Vec::new()
        } else {
            let _lock = lock(&file).await?;
            make(&file, &given, ledger).await?
        };
        let (_, kept) = contents(&file)?;
        make_private(&file);
        let value = |name: &str| given.get(name).or(kept.get(name)).cloned().unwrap_or_default();
        let webhook = read("WEBHOOK_SECRET", &value("WEBHOOK_SECRET"), str::parse)?;
        let admin = read("ADMIN_TOKEN", &value("ADMIN_TOKEN"), str::parse)?;
        let configured = NAMES.into_iter().filter(|name| given.contains_key(*name)).collect();
        Ok(Self { webhook, admin, keyring: keyring(&given, &kept)?, file, made, configured })
    }
}

/// Makes the missing secrets, and adds them to the file. The caller must hold the lock.
async fn make(file: &Path, given: &Values, ledger: &dyn Ledger) -> Result<Vec<&'static str>, Refusal> {
    // Another server may have made them while this one waited for the lock.
    let (text, kept) = contents(file)?;
    let names = missing(given, &kept);
    let unwritable = |error: io::Error| format!("{} cannot be written: {error}", file.display());
    let signing = names.contains(&SIGNING);
    if let (false, Some(name)) = (signing, names.first()) {
        // Checks that the database accepts the signing secrets before searching it for keys.
        register(&keyring(given, &kept)?, ledger, file).await?;
        if has_keys(ledger).await? {
            let place = file.display();
            return Err(refusal(
                name,
                format!(
                    "is not configured and not in {place}, and the database has keys already, so none is made: give the one \
                     that is in use, or a new one, such as `openssl rand -hex 32` prints"
                ),
            ));
        }
    }
    let mut candidates = if signing { left_behind(file) } else { Vec::new() };
    candidates.push(random());
    let mut refused = None;
    for candidate in candidates {
        let new: Vec<(&str, String)> =
            names.iter().map(|name| (*name, if *name == SIGNING { candidate.clone() } else { random() })).collect();
        let all: Values =
            kept.clone().into_iter().chain(new.iter().map(|(name, it)| ((*name).to_owned(), it.clone()))).collect();
        let ring = keyring(given, &all)?;
        let staged = stage(file, &text, &new).map_err(unwritable)?;
        match register(&ring, ledger, file).await {
            Ok(()) => {
                // A file that is itself a mount point cannot be replaced, so the lines are appended to it.
                fs::rename(&staged, file).or_else(|_| append(file, &text, &new)).map_err(unwritable)?;
                sync_folder(file).map_err(unwritable)?;
                tidy(file);
                return Ok(names);
            }
            Err(Unaccepted::Refused(refusal)) => {
                // The database has rejected the secret, so the staged file is not needed.
                let _ = fs::remove_file(&staged);
                refused = Some(refusal);
            }
            // The database may have accepted the secret, so the staged file stays for the next start.
            Err(error @ Unaccepted::Unknown(_)) => return Err(error.into()),
        }
    }
    Err(refused.unwrap_or_else(|| "KEY_SECRET (--key-secret) cannot be made".into()))
}

/// Why a keyring was not registered.
enum Unaccepted {
    Refused(Refusal),
    Unknown(StoreError),
}

impl From<Unaccepted> for Refusal {
    fn from(error: Unaccepted) -> Self {
        match error {
            Unaccepted::Refused(refusal) => refusal,
            Unaccepted::Unknown(error) => error.into(),
        }
    }
}

/// Registers the signing secrets with the store.
async fn register(ring: &Keyring, ledger: &dyn Ledger, file: &Path) -> Result<(), Unaccepted> {
    let refused = match ledger.register(&ring.fingerprints()).await {
        Ok(()) => return Ok(()),
        Err(StoreError::ForeignSecret) => format!(
            "KEY_SECRET (--key-secret): the database was made with none of these secrets, or with another KEY_PREFIX \
             (--key-prefix), so every key that was sold would be invalid; start with those it was made with (nothing was changed; is its line in {} missing or \
             commented out?)",
            file.display()
        ),
        Err(StoreError::RetiredSecret) => {
            "KEY_SECRET (--key-secret): keys were signed most recently with a secret that is not among these, and would be \
             invalid; add it to the list, behind a comma"
                .to_owned()
        }
        Err(error) => return Err(Unaccepted::Unknown(error)),
    };
    Err(Unaccepted::Refused(refused.into()))
}

async fn has_keys(ledger: &dyn Ledger) -> Result<bool, StoreError> {
    let any = KeyQuery { limit: 1, ..KeyQuery::default() };
    Ok(!ledger.search(&any).await?.items.is_empty())
}

fn missing(given: &Values, kept: &Values) -> Vec<&'static str> {
    let there = |values: &Values, name: &str| values.get(name).is_some_and(|value| !value.is_empty());
    NAMES.into_iter().filter(|name| !there(given, name) && !there(kept, name)).collect()
}

fn keyring(given: &Values, kept: &Values) -> Result<Keyring, Refusal> {
    let prefix = given.get(PREFIX).map_or(Ok(Prefix::default()), |prefix| read(PREFIX, prefix, str::parse))?;
    let ring = given.get(SIGNING).or(kept.get(SIGNING));
    read(SIGNING, ring.map_or("", String::as_str), |secrets| Keyring::read(prefix.clone(), secrets))
}

/// The text of the file and the variables in it. Both are empty if there is no file.
fn contents(file: &Path) -> Result<(String, Values), Refusal> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("{} cannot be read: {error}", file.display()).into()),
    };
    let values = dotenv::parse(&text);
    let values = values.map_err(|line| format!("{}, line {line}: a quote is not closed", file.display()))?;
    Ok((text, values))
}

/// Signing secrets in staged files, which a start made but did not move into place.
fn left_behind(file: &Path) -> Vec<String> {
    let texts = staged(file).into_iter().filter_map(|path| fs::read_to_string(path).ok());
    texts.filter_map(|text| dotenv::parse(&text).ok()?.remove(SIGNING)).collect()
}

/// The staged files: files that starts have written but not renamed to their final name.
fn staged(file: &Path) -> Vec<PathBuf> {
    let folder = fs::read_dir(folder(file)).into_iter().flatten().filter_map(Result::ok);
    let ours = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("secrets.env.new."))
    };
    folder.map(|entry| entry.path()).filter(ours).collect()
}

/// Writes the text of the file and the new lines to a staged file with a unique name.
fn stage(file: &Path, text: &str, new: &[(&str, String)]) -> io::Result<PathBuf> {
    let mut bytes = [0; 8];
    SystemEntropy::default().fill(&mut bytes);
    let staged = folder(file).join(format!("secrets.env.new.{}", data_encoding::HEXLOWER.encode(&bytes)));
    let mut out = OpenOptions::new().create_new(true).write(true).open(&staged)?;
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(lines(text, new).as_bytes()));
    keep_owner(&out, file);
    written.and_then(|()| out.sync_all()).and_then(|()| sync_folder(file)).inspect_err(|_| {
        // Otherwise the next start would take it for a file that a crash left behind.
        let _ = fs::remove_file(&staged);
    })?;
    Ok(staged)
}

/// Gives the new file the owner and group of the old one, if this process is allowed to.
fn keep_owner(new: &File, file: &Path) {
    #[cfg(unix)]
    if let Ok(old) = fs::metadata(file) {
        use std::os::unix::fs::{MetadataExt, fchown};
        let _ = fchown(new, Some(old.uid()), Some(old.gid()));
    }
}

/// The secrets that a start would use, and where they are configured.
pub(crate) struct Found {
    given: Values,
    kept: Values,
    file: PathBuf,
    keyring: Option<Keyring>,
}

impl Found {
    /// Reads and checks the secrets, and makes none.
    pub(crate) fn look(settings: &Settings) -> Result<Self, Refusal> {
        let file = settings.data_dir.join("secrets.env");
        let given = given(settings);
        let (_, kept) = contents(&file)?;
        let missing = missing(&given, &kept);
        let value = |name: &str| given.get(name).or(kept.get(name)).map_or("", String::as_str);
        if !missing.contains(&"WEBHOOK_SECRET") {
            read("WEBHOOK_SECRET", value("WEBHOOK_SECRET"), str::parse::<WebhookSecret>)?;
        }
        if !missing.contains(&"ADMIN_TOKEN") {
            let admin = read("ADMIN_TOKEN", value("ADMIN_TOKEN"), str::parse::<AdminToken>)?;
            read("ADMIN_TOKENS", "", |_| settings.admin_tokens.clone().with_admin(admin))?;
        }
        let keyring = if missing.contains(&SIGNING) { None } else { Some(keyring(&given, &kept)?) };
        Ok(Self { given, kept, file, keyring })
    }

    /// Whether the signing secrets are in the file.
    pub(crate) fn signs_by_file(&self) -> bool {
        self.keyring.is_some() && !self.given.contains_key(SIGNING)
    }

    /// The signing secrets; `None` if no start has made one yet.
    pub(crate) fn into_keyring(self) -> Option<Keyring> {
        self.keyring
    }

    /// The fingerprints of the signing secrets; `None` if there is no signing secret yet.
    pub(crate) fn fingerprints(&self) -> Option<Vec<Fingerprint>> {
        self.keyring.as_ref().map(Keyring::fingerprints)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = missing(&self.given, &self.kept);
        let place = |name: &'static str| match name {
            name if missing.contains(&name) => format!("{name} not there yet"),
            name if self.given.contains_key(name) => format!("{name} configured"),
            name => format!("{name} in {}", self.file.display()),
        };
        f.write_str(&NAMES.map(place).join(", "))?;
        if missing.is_empty() {
            return Ok(());
        }
        f.write_str("; a start makes what is not there yet, unless the database has keys")
    }
}

/// The secrets that are configured, and the prefix of keys.
fn given(settings: &Settings) -> Values {
    let given = |name: &str| Some((name.to_owned(), settings.given.text(name)?));
    NAMES.into_iter().chain([PREFIX]).filter_map(given).collect()
}

/// Appends the new lines to the file in place.
fn append(file: &Path, text: &str, new: &[(&str, String)]) -> io::Result<()> {
    let mut out = OpenOptions::new().append(true).open(file)?;
    out.write_all(lines(text, new).as_bytes())?;
    out.sync_all()
}

/// The lines to append to `text`.
fn lines(text: &str, new: &[(&str, String)]) -> String {
    let begin = match text {
        "" => "# Made on first start. Keep it: without KEY_SECRET every key that was sold is invalid.\n",
        text if text.ends_with('\n') => "",
        _ => "\n",
    };
    new.iter().fold(begin.to_owned(), |lines, (name, value)| format!("{lines}{name}={value}\n"))
}

/// Deletes the staged files whose signing secret is now in the file.
fn tidy(file: &Path) {
    let Ok((_, kept)) = contents(file) else { return };
    for path in staged(file) {
        let left = fs::read_to_string(&path).ok().and_then(|text| dotenv::parse(&text).ok()?.remove(SIGNING));
        if left.is_some() && left.as_ref() == kept.get(SIGNING) {
            // A failure does no harm: only the owner can read the staged file.
            let _ = fs::remove_file(path);
        }
    }
}

/// Locks the folder, so that one start at a time makes secrets. The lock is released at the latest when the process
/// ends.
async fn lock(file: &Path) -> Result<File, Refusal> {
    let path = folder(file).join("secrets.env.lock");
    let failed = |error: io::Error| format!("{} cannot be locked: {error}", path.display());
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    for _ in 0..PATIENCE {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(STEP).await,
            Err(TryLockError::Error(error)) => return Err(failed(error).into()),
        }
    }
    Err(format!("another server is starting in {} and does not get on", folder(file).display()).into())
}

fn folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("."))
}

/// Syncs the folder, so that a new or renamed file in it survives a crash.
fn sync_folder(file: &Path) -> io::Result<()> {
    File::open(folder(file))?.sync_all()
}

/// 256 random bits.
fn random() -> String {
    let mut bytes = [0; 32];
    SystemEntropy::default().fill(&mut bytes);
    data_encoding::BASE32_DNSSEC.encode(&bytes)
}
