//! The seller's own programs, which are notified of changes to keys by signed requests.

use delivery_core::explain;
use delivery_core::webhook::{Webhook, WebhookSigningSecret, Webhooks};
use sha2::{Digest, Sha256};

use super::given::Given;
use super::refusal::{read, refusal};
use crate::Refusal;

const URLS: &str = "WEBHOOK_URLS";
const SECRET: &str = "WEBHOOK_URLS_SECRET";

/// Reads the addresses, and the secret that signs requests to them. If there are two secrets, the second is the
/// previous one, and requests are signed with both.
pub(super) fn webhooks(given: &Given) -> Result<Option<Webhooks>, Refusal> {
    let secrets = given.text(SECRET).map(|secrets| signing(&secrets)).transpose()?;
    let Some(urls) = given.text(URLS) else { return Ok(None) };
    let Some((newest, previous)) = secrets else {
        return Err(refusal(
            SECRET,
            "must be set with WEBHOOK_URLS (--webhook-urls): whsec_ and the base64 of 24 to 64 bytes, as printed by \
             `printf whsec_; openssl rand -base64 32`",
        ));
    };
    let all = urls.split(',').map(|url| {
        let name = read(URLS, &name(url.trim()), str::parse)?;
        let webhook = Webhook::new(name, url.trim(), newest.clone()).map_err(|expected| refusal(URLS, expected))?;
        Ok(previous.iter().cloned().fold(webhook, Webhook::previous_secret))
    });
    let webhooks = Webhooks::new(all.collect::<Result<Vec<_>, Refusal>>()?);
    webhooks.map(Some).map_err(|error| refusal(URLS, format!("cannot be used: {}", explain(&error))))
}

/// Reads the newest secret, and the previous one if there is one.
fn signing(secrets: &str) -> Result<(WebhookSigningSecret, Option<WebhookSigningSecret>), Refusal> {
    let mut secrets = secrets.split(',').map(|secret| read(SECRET, secret.trim(), str::parse::<WebhookSigningSecret>));
    let (newest, previous) = (secrets.next().transpose()?, secrets.next().transpose()?);
    match newest {
        Some(newest) if secrets.next().is_none() => Ok((newest, previous)),
        _ => Err(refusal(SECRET, "must be one secret, or two: the new one, a comma, and the previous one")),
    }
}

/// The name of a receiver in the message queue: the host of its address, and a digest of the whole address. The address
/// itself is not used, because its path may contain a secret.
fn name(url: &str) -> String {
    let host = url.parse::<hyper::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(url));
    format!("{} {}", host.chars().take(50).collect::<String>(), digest.chars().take(8).collect::<String>())
}
