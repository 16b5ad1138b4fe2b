//! Parses the address of a database: its hosts, and the parameters of libpq.

use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use super::PostgresError;
use super::hosts::Hosts;
use crate::text::is_cut_short;

/// The parameters of an address that are passed on to the driver. Other spellings of these names, which the driver also
/// accepts, are refused.
const PARAMETERS: [&str; 9] =
    ["sslmode", "sslrootcert", "sslcert", "sslkey", "dbname", "user", "password", "application_name", "options"];

/// Parses an address into its hosts and their options.
pub(super) fn address(url: &str) -> Result<Hosts, PostgresError> {
    let known = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let rest = known.ok_or(PostgresError::Malformed)?;
    // Refuses an address in which a character of the password seems to lack its percent-encoding. One sign of this is a
    // `#`. Another is an `@` after the host seems to have ended, as in `postgres://user:pa/ss@host`. The part after the
    // `?` is not searched, because a parameter may contain an `@`.
    if url.contains('#') || is_cut_short(url.split('?').next().unwrap_or_default()) {
        return Err(PostgresError::Unescaped);
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, listed) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    // The driver connects to one host at a time. So the address is parsed with `localhost` in place of the listed
    // hosts, and each host is added later as the parameter `host`, which takes precedence.
    let mut base = Url::parse(&format!("postgres://{user}localhost{path}")).map_err(|_| PostgresError::Malformed)?;
    let parameters =
        parameters(&base).map_err(|error| if is_cut_short(url) { PostgresError::Unescaped } else { error })?;
    let listed: Option<(Vec<_>, Vec<_>)> = listed.split(',').map(host_and_port).collect();
    let (mut hosts, mut ports) = listed.ok_or(PostgresError::Malformed)?;
    if !parameters.hosts.is_empty() {
        hosts = parameters.hosts;
    }
    if !parameters.ports.is_empty() {
        ports = parameters.ports;
    }
    // A single port applies to all hosts.
    if let [port] = ports.as_slice() {
        ports = vec![port.clone(); hosts.len()];
    }
    if ports.len() != hosts.len() {
        return Err(PostgresError::Malformed);
    }
    base.set_query(None);
    let options = |(host, port): (String, String)| {
        let mut url = base.clone();
        let host = if host.is_empty() { PgConnectOptions::new_without_pgpass().get_host().to_owned() } else { host };
        url.query_pairs_mut().extend_pairs(&parameters.driver).append_pair("host", &host);
        if !port.is_empty() {
            url.query_pairs_mut().append_pair("port", &port);
        }
        PgConnectOptions::from_str(url.as_str()).map_err(|_| PostgresError::Malformed)
    };
    let mut all = hosts.into_iter().zip(ports).map(options);
    let first = all.next().ok_or(PostgresError::Malformed)??;
    Ok(Hosts::new(first, all.collect::<Result<_, _>>()?, parameters.patience))
}

/// The parameters of an address.
#[derive(Default)]
struct Parameters {
    hosts: Vec<String>,
    ports: Vec<String>,
    /// Time limit for connecting to one host, if the address sets one.
    patience: Option<Duration>,
    /// Parameters that are passed on to the driver.
    driver: Vec<(String, String)>,
}

fn parameters(url: &Url) -> Result<Parameters, PostgresError> {
    let list = |value: &str| value.split(',').map(str::to_owned).collect();
    let wrong = |name, expected| PostgresError::Value { name, expected };
    let mut parameters = Parameters::default();
    let mut verifies = false;
    for (name, value) in url.query_pairs() {
        match &*name {
            "host" | "hostaddr" => parameters.hosts = list(&value),
            "port" => parameters.ports = list(&value),
            "connect_timeout" => {
                let seconds: i64 =
                    value.parse().map_err(|_| wrong("connect_timeout", "must be a number of seconds"))?;
                // As in libpq, 0 or a negative number means no limit, and 1 second is raised to 2.
                let limit = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
                parameters.patience = limit.map(|seconds| Duration::from_secs(seconds.max(2)));
            }
            "channel_binding" => match &*value {
                "require" => verifies = true,
                "prefer" | "disable" => {}
                _ => return Err(wrong("channel_binding", "must be require, prefer or disable")),
            },
            "target_session_attrs" if !matches!(&*value, "any" | "read-write" | "primary") => {
                return Err(wrong("target_session_attrs", "must be read-write, primary or any: the store writes"));
            }
            "target_session_attrs" => {}
            "sslmode" if value.parse::<PgSslMode>().is_err() => {
                return Err(wrong("sslmode", "must be disable, allow, prefer, require, verify-ca or verify-full"));
            }
            // The driver trusts the system's root certificates anyway, so `system` only switches verification on.
            "sslrootcert" if value == "system" => verifies = true,
            // Only known parameters are passed on. The driver would ignore an unknown parameter, and would log its
            // value, which may be a secret.
            _ if PARAMETERS.contains(&&*name) || name.starts_with("options[") => {
                parameters.driver.push((name.into_owned(), value.into_owned()));
            }
            _ if parameters.driver.iter().any(|(name, _)| name == "password") => return Err(PostgresError::Unescaped),
            _ if name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-') => {
                return Err(PostgresError::Parameter { name: name.into_owned() });
            }
            _ => return Err(PostgresError::Malformed),
        }
    }
    if verifies {
        parameters.driver.push(("sslmode".to_owned(), "verify-full".to_owned()));
    }
    Ok(parameters)
}

/// Parses one entry in an address's list of hosts. Returns the host and the port, each of which may be empty. Returns
/// `None` if the host is not percent-encoded UTF-8.
fn host_and_port(text: &str) -> Option<(String, String)> {
    let (host, port) = text.rsplit_once(':').filter(|(_, port)| !port.contains(']')).unwrap_or((text, ""));
    let host = percent_decode_str(host.trim_matches(['[', ']'])).decode_utf8().ok()?;
    Some((host.into_owned(), port.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the hosts of an address, each with its port.
    fn hosts(url: &str) -> Option<String> {
        let shown = |options: &PgConnectOptions| {
            let socket = options.get_socket().map(|folder| folder.display().to_string());
            format!("{}:{}", socket.as_deref().unwrap_or(options.get_host()), options.get_port())
        };
        Some(address(url).ok()?.all().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn an_address_has_one_host_or_several_or_the_folder_of_a_socket() {
        for (url, expected) in [
            ("postgres://shop:secret@db.example:5433/shop", Some("db.example:5433")),
            ("postgresql://[::1]:5433/shop", Some("::1:5433")),
            ("postgres://shop@one:1,[::1]:2,three:3/shop", Some("one:1 ::1:2 three:3")),
            ("postgres://shop@one,two/shop?port=5433", Some("one:5433 two:5433")),
            ("postgres://shop@/shop?host=one,two&port=1,2", Some("one:1 two:2")),
            ("postgres://shop@:5433/shop?host=/var/run/postgresql", Some("/var/run/postgresql:5433")),
            ("postgres://shop@%2Fvar%2Frun%2Fpostgresql:5433/shop", Some("/var/run/postgresql:5433")),
            ("postgres://shop@one,two/shop?port=1,2,3", None),
            ("postgres://shop@one:http/shop", None),
            ("mysql://shop@one/shop", None),
        ] {
            assert_eq!(hosts(url).as_deref(), expected, "{url}");
        }
        let url = "postgres://us%40er:secret@one,two/shop?user=x&options=-c%20a%3Db";
        for options in address(url).unwrap().all() {
            assert_eq!((options.get_username(), options.get_database()), ("x", Some("shop")));
            assert_eq!(options.get_options(), Some("-c a=b"));
        }
    }

    #[test]
    fn words_of_libpq_are_understood_and_others_are_named() {
        use PgSslMode::{Prefer, Require, VerifyFull};
        for (words, mode, seconds) in [
            ("sslmode=require", Require, None),
            ("sslrootcert=system", VerifyFull, None),
            ("sslmode=require&channel_binding=require", VerifyFull, None),
            ("sslmode=prefer&channel_binding=prefer&target_session_attrs=read-write", Prefer, None),
            ("sslmode=prefer&connect_timeout=0", Prefer, None),
            ("sslmode=prefer&connect_timeout=1", Prefer, Some(2)),
            ("sslmode=prefer&connect_timeout=10", Prefer, Some(10)),
        ] {
            let hosts = address(&format!("postgres://shop@db.example/shop?{words}")).unwrap();
            let found = hosts.all().next().unwrap().get_ssl_mode();
            assert_eq!(std::mem::discriminant(&found), std::mem::discriminant(&mode), "{words}");
            assert_eq!(hosts.patience(), seconds.map(Duration::from_secs), "{words}");
        }
        for (url, told) in [
            ("postgres://shop:hunter2@db.example/shop?sslmod=require", "the unknown parameter sslmod:"),
            ("postgres://shop@db.example/shop?connect_timeout=soon", "connect_timeout of the address must be"),
            ("postgres://shop@db.example/shop?sslmode=on", "sslmode of the address must be"),
            ("postgres://shop@db.example/shop?channel_binding=yes", "channel_binding of the address must be"),
            ("postgres://shop@db.example/shop?target_session_attrs=standby", "the store writes"),
            ("postgres://shop:hunter2/x@db.example/shop", "/ is %2F"),
            ("postgres://shop:12/hunter@db.example/shop", "/ is %2F"),
            ("postgres://shop:12#hunter@db.example/shop", "# is %23"),
            ("postgres://shop:12?hunter=2@db.example/shop", "? is %3F"),
            ("postgres://db.example/shop?password=12&hunter", "percent-encoded"),
            ("postgres://db.example/shop?password=12#hunter", "percent-encoded"),
            ("postgres://db.example/shop?hunter2=x", "must be an address"),
        ] {
            let said = address(url).err().unwrap().to_string();
            assert!(said.contains(told) && !said.contains("hunter"), "{url}: {said}");
        }
    }
}
