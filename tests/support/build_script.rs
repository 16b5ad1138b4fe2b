//! Tells the tests what this machine lacks: see `programs.rs`.

#[path = "programs.rs"]
#[expect(dead_code, reason = "this script uses only a part of the module")]
mod programs;

fn main() {
    let must_run = std::env::var_os("CI").is_some();
    for need in programs::NEEDS {
        println!("cargo::rustc-check-cfg=cfg(without, values(\"{need}\"))");
        if !must_run && !programs::is_there(need) {
            println!("cargo::rustc-cfg=without=\"{need}\"");
            println!("cargo::warning=tests that need {need} are ignored: it is not installed");
        }
    }
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-changed=tests/support/programs.rs");
    for folder in programs::folders().into_iter().filter(|folder| folder.exists()) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
}
