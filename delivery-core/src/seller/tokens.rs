//! Named admin tokens: each seller has a token, and the audit log shows who did what.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use subtle::{Choice, ConditionallySelectable};

use super::{Head, Seller};
use crate::key::Actor;
use crate::secret::AdminToken;
use crate::text::Invalid;

/// The maximum length of a seller's name, in characters.
const LONGEST: usize = 32;
/// Names that no seller may have, because they have another meaning in the audit log.
const TAKEN: [&str; 3] = ["admin", "buyer", "system"];

const EXPECTED: Invalid = Invalid::expected(
    "must be names and tokens such as alice:TOKEN, separated by commas: a name has 1 to 32 of a-z, 0-9 and -, \
     comes once, and is not admin, buyer or system; a token has at least 16 characters of visible ASCII, and comes once",
);

/// The tokens of several sellers, each with a name that the audit log shows.
///
/// `FromStr` parses `alice:TOKEN,bob:TOKEN`. A name consists of 1 to 32 characters of `a` to `z`, `0` to `9` and `-`,
/// and is not `admin`, `buyer` or `system`. A token has at least 16 characters of visible ASCII and no comma. Each name
/// and each token may occur only once.
#[derive(Clone, Default)]
pub struct AdminTokens(Vec<(Actor, AdminToken)>);

impl AdminTokens {
    /// Adds the token of the administrator. The audit log shows a caller with this token as [`Actor::admin`].
    ///
    /// # Errors
    ///
    /// [`Invalid`] if a named seller already has this token, because the token would then stand for two names.
    pub fn with_admin(mut self, token: AdminToken) -> Result<Self, Invalid> {
        if self.0.iter().any(|(_, other)| token.is(other)) {
            return Err(Invalid::expected("must not have the token of ADMIN_TOKEN under another name"));
        }
        self.0.push((Actor::admin(), token));
        Ok(self)
    }

    /// Returns, for each token, the name of its owner and the SHA-256 digest of the token.
    #[cfg(feature = "pages")]
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Actor, &[u8; 32])> {
        self.0.iter().map(|(actor, token)| (actor, token.digest()))
    }

    /// Returns the name of the owner of the presented token; `None` if the token is unknown. The comparison takes the
    /// same time for every token, known or not.
    fn bearer(&self, presented: &[u8]) -> Option<&Actor> {
        let mut found = u32::MAX;
        for (index, (_, token)) in (0_u32..).zip(&self.0) {
            found.conditional_assign(&index, Choice::from(u8::from(token.matches(presented))));
        }
        let (name, _) = self.0.get(usize::try_from(found).ok()?)?;
        Some(name)
    }
}

impl FromStr for AdminTokens {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let mut tokens: Vec<(Actor, AdminToken)> = Vec::new();
        for pair in text.split(',') {
            let (name, secret) = pair.trim().split_once(':').ok_or(EXPECTED)?;
            let is_name = (1..=LONGEST).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
            let comes_twice =
                |(other, token): &(Actor, AdminToken)| other.as_str() == name || token.matches(secret.as_bytes());
            if !is_name || TAKEN.contains(&name) || tokens.iter().any(comes_twice) {
                return Err(EXPECTED);
            }
            tokens.push((name.parse().map_err(|_| EXPECTED)?, secret.parse().map_err(|_| EXPECTED)?));
        }
        Ok(Self(tokens))
    }
}

impl fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name.as_str())).finish()
    }
}

#[async_trait]
impl Seller for AdminTokens {
    async fn authenticate(&self, head: &Head<'_>) -> Option<Actor> {
        self.bearer(head.bearer()?.as_bytes()).cloned()
    }

    fn tokens(&self) -> Option<AdminTokens> {
        Some(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_tokens_are_checked() {
        let long = format!("{}:0123456789abcdef", "a".repeat(33));
        for (text, accepted) in [
            ("alice:0123456789abcdef", true),
            ("alice:0123456789abcdef,bob-2:fedcba9876543210", true),
            (" alice:0123456789abcdef , bob:fedcba9876543210 ", true),
            ("alice:with:colons:0123456789", true),
            ("", false),
            ("alice", false),
            (":0123456789abcdef", false),
            ("alice:", false),
            ("alice:short", false),
            ("Alice:0123456789abcdef", false),
            ("a_b:0123456789abcdef", false),
            ("admin:0123456789abcdef", false),
            ("buyer:0123456789abcdef", false),
            ("system:0123456789abcdef", false),
            ("alice:0123456789abcdef,", false),
            ("alice:0123456789abcdef,alice:fedcba9876543210", false),
            ("alice:0123456789abcdef,bob:0123456789abcdef", false),
            ("alice:0123456789 abcdef", false),
            (&long, false),
        ] {
            assert_eq!(text.parse::<AdminTokens>().is_ok(), accepted, "{text:?}");
        }
    }

    #[test]
    fn a_token_tells_its_name_and_is_not_shown() {
        let tokens: AdminTokens = "alice:0123456789abcdef,bob:fedcba9876543210".parse().unwrap();
        let tokens = tokens.with_admin("the-first-token-of-all".parse().unwrap()).unwrap();
        for (presented, name) in [
            ("0123456789abcdef", Some("alice")),
            ("fedcba9876543210", Some("bob")),
            ("the-first-token-of-all", Some("admin")),
            ("0123456789abcde", None),
            ("alice:0123456789abcdef", None),
            ("", None),
        ] {
            assert_eq!(tokens.bearer(presented.as_bytes()).map(Actor::as_str), name, "{presented:?}");
        }
        assert_eq!(format!("{tokens:?}"), r#"["alice", "bob", "admin"]"#);
        assert!(tokens.with_admin("fedcba9876543210".parse().unwrap()).is_err(), "Bob's token");
    }
}
