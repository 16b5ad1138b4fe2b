//! A folder in which an example server runs, and what its commands say there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Once;

use tempfile::TempDir;

use super::{Server, configured};

/// The program of an example, beside this test's binary. `cargo test --test servers` does not build examples: Cargo is asked
/// here, once, which takes half a second where they are built.
pub fn example(name: &str) -> PathBuf {
    static BUILT: Once = Once::new();
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    BUILT.call_once(|| {
        // Unset where the test was not started by Cargo.
        let Some(cargo) = std::env::var_os("CARGO") else { return };
        if std::env::var_os("EXAMPLES_BUILT").is_some() {
            return;
        }
        let profile = match folder.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            profile => profile,
        };
        let arguments = ["build", "--quiet", "--examples", "--profile", profile];
        let mut command = Command::new(cargo);
        // What Cargo tells a test of its own package would have build scripts run again, and their packages built.
        let told = ["CARGO_BIN_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PRIMARY_", "OUT_DIR"];
        for (name, _) in std::env::vars_os() {
            if told.iter().any(|told| name.to_string_lossy().starts_with(told)) {
                command.env_remove(name);
            }
        }
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let built = command.args(arguments).current_dir(root).status().unwrap();
        assert!(built.success(), "cargo build --examples failed");
    });
    let program = folder.join("examples").join(name);
    assert!(program.exists(), "{name} is not built: run cargo build --examples");
    program
}

/// A folder of its own for one of the servers.
pub struct Site {
    folder: TempDir,
    pub program: &'static str,
}

impl Site {
    pub fn new(program: &'static str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), program }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn data(&self) -> PathBuf {
        self.path().join("delivery-data")
    }

    pub fn binary(&self) -> PathBuf {
        example(self.program)
    }

    pub fn command(&self, settings: &[(&str, &str)]) -> Command {
        self.configured(Command::new(self.binary()), settings)
    }

    fn configured(&self, mut command: Command, settings: &[(&str, &str)]) -> Command {
        command.current_dir(&self.folder).env_clear().env("BIND", "127.0.0.1:0").envs(settings.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Whether the program succeeds, and what it writes to standard output and to standard error.
    pub fn run(&self, settings: &[(&str, &str)], arguments: &[&str]) -> (bool, String, String) {
        let Output { status, stdout, stderr } = self.command(settings).args(arguments).output().unwrap();
        (status.success(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    /// What it prints. It must succeed and say this.
    pub fn says(&self, settings: &[(&str, &str)], arguments: &[&str], text: &str) -> String {
        let (good, said, why) = self.run(settings, arguments);
        assert!(good && said.contains(text), "{text}: {said} {why}");
        said
    }

    /// What it writes to standard error. It must fail and say this.
    pub fn refuses(&self, settings: &[(&str, &str)], arguments: &[&str], why: &str) -> String {
        let (good, _, said) = self.run(settings, arguments);
        assert!(!good && said.contains(why), "{why}: {said}");
        said
    }

    pub fn start(&self, settings: &[(&str, &str)]) -> Server {
        Server::start(self.command(settings))
    }

    /// Configured, with these settings too.
    pub fn start_with(&self, more: &[(&str, &str)]) -> Server {
        self.start(&configured(more))
    }

    /// The same, with a product to sell.
    pub fn shop(&self, more: &[(&str, &str)]) -> Server {
        let server = self.start_with(more);
        assert_eq!(server.add_product().0, 200);
        server
    }

    /// With at most this number of file descriptors.
    pub fn start_with_descriptors(&self, descriptors: u32, settings: &[(&str, &str)]) -> Server {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("ulimit -n {descriptors}; exec \"$0\"")).arg(self.binary());
        Server::start(self.configured(shell, settings))
    }

    /// The finished ones: an e-mail that is being written has another name until it is complete.
    pub fn messages(&self) -> Vec<String> {
        let files = fs::read_dir(self.data().join("mail")).unwrap().map(|file| file.unwrap().path());
        let finished = files.filter(|file| file.extension().is_some_and(|extension| extension == "eml"));
        finished.map(|file| fs::read_to_string(file).unwrap()).collect()
    }
}
