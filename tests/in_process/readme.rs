//! What the documentation must name: every setting, every endpoint, every code. What the image must build.

use std::collections::BTreeMap;
use std::process::Command;

use delivery_core::ErrorCode;
use delivery_core::http::Endpoint;

const README: &str = include_str!("../../README.md");
const SERVERS: &str = include_str!("../../examples/server/README.md");
const IMAGE: &str = include_str!("../../examples/deploy/Dockerfile");
const LOCKED: &str = include_str!("../../Cargo.lock");

fn help(program: &str) -> String {
    let output = Command::new(support::process::example(program)).arg("--help").env_clear().output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace(program, "SERVER")
}

/// Whether the first column of some table names it.
fn names(page: &str, name: &str) -> bool {
    page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next()).any(|first| first.contains(name))
}

/// The settings in the text of `--help`, each with its default. Either the setting's help ends with the default, or the
/// default follows the name of the variable.
fn defaults(help: &str) -> BTreeMap<&str, Option<&str>> {
    let parts: Vec<&str> = help.split("[env: ").collect();
    let settings = parts.windows(2).map(|pair| {
        let (name, after) = pair[1].split_once(['=', ']']).unwrap();
        let in_help = pair[0].strip_suffix("] ").and_then(|help| help.rsplit_once("[default: "));
        let follows = after.strip_prefix("] [default: ").and_then(|rest| rest.split_once(']'));
        (name, in_help.map(|(_, default)| default).or(follows.map(|(default, _)| default.trim_matches('"'))))
    });
    settings.collect()
}

#[test]
fn every_setting_has_a_line() {
    let help = help("axum_server");
    let settings = defaults(&help);
    assert!(settings.len() > 15, "{help}");
    // One sentence is about the twins that name a file.
    for setting in settings.keys().map(|setting| setting.strip_suffix("_FILE").unwrap_or(setting)) {
        assert!(names(SERVERS, &format!("`{setting}`")), "examples/server/README.md says nothing of {setting}");
    }
}

#[test]
fn every_default_is_the_one_that_is_documented() {
    const IN_OTHER_WORDS: [&str; 5] = ["MAIL_CONNECTIONS", "MAIL_HELO", "MAIL_RATE", "REDIS_URL", "SMTP_URL"];
    let help = help("axum_server").split_whitespace().collect::<Vec<_>>().join(" ");
    let defaults = defaults(&help);
    assert!(defaults.values().flatten().count() > 15, "{help}");
    for (setting, default) in defaults.into_iter().filter(|(setting, _)| !IN_OTHER_WORDS.contains(setting)) {
        let begins = format!("| `{setting}` | ");
        let documented = SERVERS.lines().find_map(|line| line.strip_prefix(&begins)?.split(" | ").next());
        let documented = documented.map(|default| default.trim_matches('`'));
        let documented = documented.filter(|default| !["none", "built-in ones"].contains(default));
        assert_eq!(documented, default, "the default of {setting} in examples/server/README.md, and in --help");
    }
}

#[test]
fn both_servers_have_the_same_settings() {
    assert_eq!(help("axum_server"), help("rocket_server"));
}

#[test]
fn every_endpoint_has_a_line() {
    let table: String = README.lines().filter(|line| line.starts_with('|')).collect();
    for endpoint in Endpoint::all() {
        let line = format!("`{} {}", endpoint.method(), endpoint.path());
        let whole = table.split(&line).skip(1).any(|rest| rest.starts_with(['`', '?']));
        // Platforms share a line.
        let last = endpoint.path().rsplit('/').next().unwrap();
        let of_platforms = matches!(endpoint, Endpoint::Platform(_)) && names(README, &format!(" `{last}`"));
        assert!(whole || of_platforms, "README says nothing of {}", endpoint.path());
    }
}

#[test]
fn every_code_has_a_line_with_its_status() {
    // An application's own rules have codes of their own, and the servers have no such rules.
    for code in ErrorCode::ALL.into_iter().filter(|code| *code != ErrorCode::Denied) {
        let line = SERVERS.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{code}`")));
        assert!(
            line.is_some_and(|line| line.contains(&code.status().to_string())),
            "examples/server/README.md says nothing of {code}"
        );
    }
}

#[test]
fn the_image_is_built_of_packages_and_programs_that_exist() {
    let words: Vec<&str> = IMAGE.split_whitespace().collect();
    let packages: Vec<&str> = words.windows(2).filter(|pair| pair[0] == "--package").map(|pair| pair[1]).collect();
    assert!(packages.contains(&"axum-server-example"), "{packages:?}");
    for package in packages {
        assert!(LOCKED.contains(&format!("name = \"{package}\"\n")), "the workspace has no package {package}");
    }
    let programs = words.iter().filter_map(|word| word.strip_prefix("/delivery/target/release/examples/"));
    for program in programs {
        assert!(support::process::example(program).exists());
    }
}

const MINIMAL: [(&str, &str); 2] = [
    (include_str!("../../examples/minimal_axum/main.rs"), include_str!("../../examples/minimal_axum/Cargo.toml")),
    (include_str!("../../examples/minimal_rocket/main.rs"), include_str!("../../examples/minimal_rocket/Cargo.toml")),
];

/// The code of a program, without the comment at its head and the empty lines that the README leaves out.
fn code(program: &str) -> Vec<&str> {
    program.lines().filter(|line| !line.starts_with("//!") && !line.is_empty()).collect()
}

#[test]
fn the_readme_shows_the_minimal_programs() {
    let blocks: Vec<Vec<&str>> =
        README.split("```rust,no_run\n").skip(1).map(|rest| code(rest.split("```").next().unwrap())).collect();
    assert_eq!(blocks, MINIMAL.map(|(program, _)| code(program)));
}

/// The version in `axum = { version = "0.8.9", … }` or `axum = "0.8.9"`.
fn version<'a>(manifest: &'a str, name: &str) -> Option<&'a str> {
    let rest = manifest.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
    rest.trim_start_matches("{ version = ").split('"').nth(1)
}

#[test]
fn a_copied_program_names_the_versions_of_the_workspace() {
    let root = include_str!("../../Cargo.toml");
    for (_, manifest) in MINIMAL {
        let (_, dependencies) = manifest.split_once("[dependencies]\n").unwrap();
        let dependencies: Vec<&str> = dependencies
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, _)| name)
            .collect();
        assert!(dependencies.len() > 1, "{manifest}");
        for name in ["version", "edition", "rust-version"].into_iter().chain(dependencies) {
            assert!(version(root, name).is_some(), "the workspace names no version of {name}");
            assert_eq!(version(manifest, name), version(root, name), "{name}");
        }
    }
}
