//! Reads [`Settings`] from a table, with serde. The keys are the names of the settings in lower case, such as
//! `limit_admin`. A value is a text, a number, a boolean or a list of texts. The entries of a list are joined into one
//! text, separated by commas.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value as Json;

use super::{Setting, Settings};

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let known = |name: &str| Setting::all().any(|known| known.name.to_ascii_lowercase() == name);
        if let Some(name) = table.keys().find(|name| !known(name)) {
            return Err(D::Error::custom(format!("there is no setting {name}")));
        }
        let value = |name: &str| table.get(&name.to_ascii_lowercase());
        for Setting { name, may_be_list, .. } in Setting::all().filter(|setting| setting.is_secret) {
            // A secret that is written as a number would lose its leading zeros.
            let fits = value(name).is_none_or(|value| match value {
                Value::Text(_) => true,
                Value::Bare(_) => false,
                Value::List(_) => may_be_list,
            });
            if !fits {
                return Err(D::Error::custom(format!("{name} must be a text in quotes")));
            }
        }
        let text = |name: &str| match value(name)? {
            Value::Text(text) | Value::Bare(text) => Some(text.clone()),
            Value::List(entries) => Some(entries.join(",")),
        };
        Self::read(text).map_err(D::Error::custom)
    }
}

/// A value in a table of settings.
enum Value {
    Text(String),
    /// A number or a boolean.
    Bare(String),
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The errors do not repeat the value, because it may be a secret.
        let text = |entry| match entry {
            Json::String(text) => Ok(text),
            _ => Err(D::Error::custom("a list of settings holds texts")),
        };
        match Json::deserialize(deserializer)? {
            Json::String(text) => Ok(Self::Text(text)),
            // A whole number may be written as 7.0, which `f64` formats as 7.
            Json::Number(number) => Ok(Self::Bare(match number.as_f64().filter(|_| number.is_f64()) {
                Some(float) => float.to_string(),
                None => number.to_string(),
            })),
            Json::Bool(flag) => Ok(Self::Bare(flag.to_string())),
            Json::Array(list) => list.into_iter().map(text).collect::<Result<_, _>>().map(Self::List),
            Json::Null | Json::Object(_) => {
                Err(D::Error::custom("a setting is a text, a number, true or false, or a list of texts"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::delivery::Options;
    use crate::limit::{Quota, Quotas};
    use crate::mail::Sender;
    use crate::terms::{Terms, UseLimit, Validity};

    const SECRET: &str = "hunter2-hunter2-hunter2";

    fn settings(more: Json) -> Result<Settings, String> {
        let mut table =
            json!({ "webhook_secret": SECRET, "admin_token": SECRET, "key_secret": [SECRET, "an older secret too"] });
        let (Json::Object(table), Json::Object(more)) = (&mut table, more) else { unreachable!() };
        table.extend(more);
        serde_json::from_value(Json::Object(table.clone())).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_of_settings() {
        let read = settings(json!({
            "trusted_proxies": ["10.0.0.0/8", "192.0.2.1"], "limit_admin": 3, "limit_product": "7", "key_uses": -1,
            "key_days": 30, "base_url": "https://shop.example/api", "mail_from": "",
            "language": "de-AT", "expiry_notice_days": 0, "limit_resend": 2.0, "limit_desk": 9,
        }))
        .unwrap();
        let Options { sender, base_url, language, expiry_notice, trusted_proxies, quotas, terms, .. } = read.options;
        assert_eq!(sender, Sender::default());
        assert_eq!(base_url.as_deref(), Some("https://shop.example/api"));
        assert_eq!((language.as_str(), expiry_notice.days()), ("de-at", 0));
        assert_eq!(trusted_proxies.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.0/8", "192.0.2.1/32"]);
        let expected = Quotas {
            admin: Quota::per_minute(3).unwrap(),
            product: Quota::per_minute(7).unwrap(),
            resend: Quota::per_minute(2).unwrap(),
            desk: Quota::per_minute(9).unwrap(),
            ..Quotas::default()
        };
        assert_eq!(quotas, expected);
        assert_eq!(terms, Terms { validity: Validity::from_days(30).unwrap(), limit: UseLimit::Unlimited });
        assert_eq!(read.keyring.fingerprints().len(), 2);
    }

    fn secret(name: &str) -> Option<String> {
        matches!(name, "WEBHOOK_SECRET" | "ADMIN_TOKEN" | "KEY_SECRET").then(|| SECRET.to_owned())
    }

    #[test]
    fn every_setting_that_is_read_may_stand_in_a_table() {
        let asked = std::cell::RefCell::new(BTreeSet::new());
        let read = Settings::read(|name| {
            asked.borrow_mut().insert(name);
            secret(name)
        });
        assert!(read.is_ok());
        let asked = asked.into_inner();
        assert_eq!(asked, Setting::all().map(|setting| setting.name).collect::<BTreeSet<_>>());
        for name in asked {
            let refused = settings(json!({ (name.to_ascii_lowercase()): "" })).err().unwrap_or_default();
            assert!(!refused.contains("there is no setting"), "{refused}");
        }
    }

    #[test]
    fn the_defaults_of_the_table_are_those_of_a_host_that_sets_nothing() {
        let row = |name: &str| Setting::all().find(|setting| setting.name == name).unwrap();
        let read = Settings::read(|name| row(name).default.map(str::to_owned).or_else(|| secret(name))).unwrap();
        let unset = Settings::read(secret).unwrap();
        assert_eq!(read.keyring.fingerprints(), unset.keyring.fingerprints(), "KEY_PREFIX");
        assert_eq!(format!("{:?}", read.options), format!("{:?}", unset.options));
        assert_eq!(format!("{:?}", unset.options), format!("{:?}", Options::default()));
        // The row has no default, because a shop that sends by SMTP must set MAIL_FROM.
        assert!(row("MAIL_FROM").help.ends_with(&format!("[default: {}]", Sender::default())));
    }

    #[test]
    fn platforms_may_stand_in_a_table() {
        use crate::delivery::PlatformSettings;

        let all = json!({
            "stripe_secret": "whsec_1", "paddle_secret": "pdl_1", "paddle_tolerance": 7, "accept_test_events": true,
            "subscription_grace_days": 0,
        });
        for (more, expected) in [
            (all, "stripe paddle true 0"),
            (json!({ "polar_secret": "polar_whs_1", "accept_test_events": "false" }), "polar false 3"),
            (json!({ "stripe_secret": 123 }), "STRIPE_SECRET must be a text in quotes"),
            (json!({ "stripe_secret": ["whsec_1", "whsec_2"] }), "STRIPE_SECRET must be a text in quotes"),
            (json!({ "accept_test_events": 1 }), "ACCEPT_TEST_EVENTS must be true or false"),
            (json!({ "subscription_grace_days": 60 }), " false 60"),
            (json!({ "subscription_grace_days": 61 }), "SUBSCRIPTION_GRACE_DAYS must be 0 to 60 days"),
            (json!({ "subscription_grace_days": -1 }), "SUBSCRIPTION_GRACE_DAYS must be 0 to 60 days"),
            (json!({ "subscription_grace_days": "three" }), "SUBSCRIPTION_GRACE_DAYS must be 0 to 60 days"),
        ] {
            let read = settings(more.clone()).map(|read| {
                let PlatformSettings { platforms, accept_test_events, subscription_grace, .. } = read.options.platforms;
                let names: Vec<_> = platforms.iter().map(|platform| platform.name().to_string()).collect();
                format!("{} {accept_test_events} {}", names.join(" "), subscription_grace.days())
            });
            assert_eq!(read.unwrap_or_else(|refused| refused), expected, "{more}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named_and_not_repeated() {
        for (more, expected) in [
            (json!({ "webhook_secret": "hunter2" }), "WEBHOOK_SECRET must be at least 16"),
            (json!({ "webhook_secret": null }), "a list of texts"),
            (json!({ "webhook_secret": "" }), "WEBHOOK_SECRET must be set"),
            (json!({ "webhook_secret": 12_345_678_901_234_567_u64 }), "WEBHOOK_SECRET must be a text in quotes"),
            (json!({ "admin_token": true }), "ADMIN_TOKEN must be a text in quotes"),
            (json!({ "admin_token": { "hunter2": 1 } }), "a list of texts"),
            (json!({ "webhook_secret": [SECRET, SECRET] }), "WEBHOOK_SECRET must be a text in quotes"),
            (json!({ "key_secret": [SECRET, "hunter2"] }), "KEY_SECRET"),
            (json!({ "key_secret": [SECRET, 12_345_678_901_234_567_u64] }), "a list of settings holds texts"),
            (json!({ "gumroad_token": "fourteen chars" }), "GUMROAD_TOKEN must be at least 16"),
            (json!({ "gumroad_token": "  fourteen chars  " }), "GUMROAD_TOKEN must be at least 16"),
            (json!({ "limit_admin": 0 }), "LIMIT_ADMIN must be 1 or more"),
            (json!({ "limit_admin": 1.5 }), "LIMIT_ADMIN must be 1 or more"),
            (json!({ "limit_admin": true }), "LIMIT_ADMIN must be 1 or more"),
            (json!({ "key_days": 36_501 }), "KEY_DAYS must be 1 to 36500"),
            (json!({ "trusted_proxies": ["hunter2"] }), "TRUSTED_PROXIES must be networks"),
            (json!({ "base_url": "https://user:hunter2@shop.example" }), "BASE_URL must be an address"),
            (json!({ "base_url": "ftp://x" }), "BASE_URL must be an address"),
            (json!({ "base_url": "https://shop.example/#top" }), "BASE_URL must be an address"),
            (json!({ "limit_amdin": 3 }), "there is no setting limit_amdin"),
            (json!({ "LIMIT_ADMIN": 3 }), "there is no setting LIMIT_ADMIN"),
        ] {
            let refused = settings(more.clone()).unwrap_err();
            assert!(refused.contains(expected) && !refused.contains("hunter2"), "{more}: {refused}");
            assert!(!refused.contains("12345678901234567"), "{refused}");
        }
    }
}
