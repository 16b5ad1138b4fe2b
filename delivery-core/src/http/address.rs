//! The address of the client. This is the address of the peer, or an address that a trusted proxy reports in
//! `X-Forwarded-For`.

use std::net::IpAddr;

use ::http::HeaderMap;
use ipnet::IpNet;

use super::names;
use crate::delivery::Delivery;
use crate::limit::Identity;

/// Returns the client whose rate limits a call counts against: an address, or [`Identity::Unknown`] without a `peer`.
///
/// If the peer is not a trusted proxy, the peer is the client. If the peer is a trusted proxy, all `X-Forwarded-For`
/// fields are read as one list, from right to left. The first address that is not a trusted proxy is the client. The
/// entries to the left of that address are ignored, because the client may have forged them.
///
/// These are the special cases:
///
/// - If there are no entries, the peer is the client.
/// - If all entries are trusted proxies, the leftmost is the client.
/// - If an entry is not an address, the reading stops there. The entry to the right of it is then the client, or the
///   peer if there is no such entry.
pub(super) fn client(peer: Option<IpAddr>, headers: &HeaderMap, trusted: &[IpNet]) -> Identity {
    let Some(peer) = peer else { return Identity::Unknown };
    let is_trusted = |address: IpAddr| trusts(trusted, address);
    let mut client = peer.to_canonical();
    if trusted.is_empty() || !is_trusted(client) {
        return client.into();
    }
    let fields: Vec<_> = headers.get_all(&names::FORWARDED_FOR).iter().collect();
    for field in fields.into_iter().rev() {
        // Split bytes, because the client may have sent entries that are not UTF-8 text. The entries of the proxies, at
        // the right, are valid nevertheless.
        for entry in field.as_bytes().rsplit(|byte| *byte == b',') {
            let entry = std::str::from_utf8(entry).unwrap_or_default();
            let Some(address) = address(entry.trim()) else { return client.into() };
            client = address;
            if !is_trusted(client) {
                return client.into();
            }
        }
    }
    client.into()
}

impl Delivery {
    /// Returns whether `peer` is one of the [trusted proxies](crate::delivery::Builder::trusted_proxies).
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        trusts(&self.inner.trusted_proxies, peer.to_canonical())
    }
}

fn trusts(trusted: &[IpNet], address: IpAddr) -> bool {
    trusted.iter().any(|network| covers(network, address))
}

/// Returns whether `network` contains `address`. An IPv4-mapped network such as `::ffff:10.0.0.0/104` contains the
/// IPv4 addresses of `10.0.0.0/8`.
fn covers(network: &IpNet, address: IpAddr) -> bool {
    match (network, address) {
        (IpNet::V6(network), IpAddr::V4(address)) => {
            network.prefix_len() >= 96 && network.contains(&address.to_ipv6_mapped())
        }
        _ => network.contains(&address),
    }
}

/// Parses an address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`.
fn address(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    let address = bare.parse().ok().or_else(|| entry.parse::<std::net::SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn walk(peer: &str, fields: &[&str], trusted: &[&str]) -> Identity {
        // Each character of a field, at most U+00FF, stands for one byte.
        let bytes = |field: &str| field.chars().map(|c| u8::try_from(c).unwrap()).collect::<Vec<u8>>();
        let value = |field: &&str| ::http::HeaderValue::from_bytes(&bytes(field)).unwrap();
        let headers = fields.iter().map(|field| (names::FORWARDED_FOR.clone(), value(field))).collect();
        let trusted: Vec<IpNet> = trusted.iter().map(|network| network.parse().unwrap()).collect();
        client(peer.parse().ok(), &headers, &trusted)
    }

    fn is(address: &str) -> Identity {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn the_walk_ends_at_the_first_untrusted_hop() {
        let proxies = ["10.0.0.0/8", "fd00::/8"];
        for (peer, fields, expected) in [
            ("192.0.2.1", vec!["203.0.113.9"], "192.0.2.1"),
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec!["203.0.113.9"], "203.0.113.9"),
            ("::ffff:10.0.0.1", vec!["203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", vec!["1.2.3.4, 203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", vec!["1.2.3.4", "203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", vec!["1.2.3.4, 203.0.113.9, 10.9.9.9"], "203.0.113.9"),
            ("10.0.0.1", vec!["203.0.113.9", "10.9.9.9"], "203.0.113.9"),
            ("10.0.0.1", vec!["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
            ("10.0.0.1", vec!["203.0.113.9, unknown, 10.2.2.2"], "10.2.2.2"),
            ("10.0.0.1", vec!["\u{ff}, 203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", vec!["203.0.113.9, \u{ff}"], "10.0.0.1"),
            ("10.0.0.1", vec!["203.0.113.9:4711"], "203.0.113.9"),
            ("10.0.0.1", vec!["[2001:db8::1]:4711"], "2001:db8::1"),
            ("10.0.0.1", vec!["::ffff:203.0.113.9"], "203.0.113.9"),
            ("fd00::1", vec!["2001:db8::1"], "2001:db8::1"),
        ] {
            assert_eq!(walk(peer, &fields, &proxies), is(expected), "{peer} {fields:?}");
        }
        assert_eq!(walk("10.0.0.1", &["203.0.113.9"], &[]), is("10.0.0.1"));
        let mapped = ["::ffff:10.0.0.0/104"];
        assert_eq!(walk("10.0.0.1", &["203.0.113.9"], &mapped), is("203.0.113.9"), "the same network in other words");
        assert_eq!(client(None, &HeaderMap::new(), &[]), Identity::Unknown);
    }

    proptest! {
        /// Whatever the client writes into `X-Forwarded-For`, the address that the trusted proxy appended is used.
        #[test]
        fn a_client_cannot_choose_its_address(forged in "[ -~]{0,60}", real: [u8; 4]) {
            let real = IpAddr::from(real);
            prop_assume!(!"10.0.0.0/8".parse::<IpNet>().unwrap().contains(&real));
            let field = format!("{forged}, {real}");
            prop_assert_eq!(walk("10.0.0.1", &[&field], &["10.0.0.0/8"]), real.into());
        }
    }
}
