//! axe-core, which finds what keeps people from using a page.

use std::fs;
use std::path::Path;
use std::process::Command;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

const VERSION: &str = "4.14.1";
/// The SHA-256 of its `axe.min.js`.
const DIGEST: &str = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c";

/// Its source, from the package registry, which is asked once.
pub fn source() -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("axe-core-{VERSION}.js"));
    if !file.exists() {
        let packed =
            Command::new("npm").args(["pack", "--silent", &format!("axe-core@{VERSION}")]).current_dir(folder).status();
        let package = format!("axe-core-{VERSION}.tgz");
        let unpacked = Command::new("tar").args(["-xzOf", &package, "package/axe.min.js"]).current_dir(folder).output();
        assert!(packed.is_ok_and(|status| status.success()), "npm cannot get axe-core {VERSION}: is there a network?");
        let (source, new) = (unpacked.unwrap().stdout, file.with_extension("new"));
        fs::write(&new, checked(source)).unwrap();
        fs::rename(new, &file).unwrap();
    }
    String::from_utf8(checked(fs::read(&file).unwrap())).unwrap()
}

fn checked(source: Vec<u8>) -> Vec<u8> {
    assert_eq!(HEXLOWER.encode(&Sha256::digest(&source)), DIGEST, "another axe-core than {VERSION}");
    source
}
