//! Connects to hosts that have several addresses, and uses the first connection that succeeds.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::lookup_host;
use tokio::time::sleep;

/// Connects to a host. The attempts to connect to its addresses run concurrently, but each starts a short time after
/// the previous one (RFC 8305).
#[cfg(feature = "smtp")]
pub(crate) async fn connect(host: &str, port: u16) -> io::Result<tokio::net::TcpStream> {
    connect_to_any(addresses(host, port).await?).await
}

#[cfg(feature = "smtp")]
async fn connect_to_any(addresses: Vec<SocketAddr>) -> io::Result<tokio::net::TcpStream> {
    /// The delay between the starts of two attempts, as recommended by RFC 8305, section 8.
    const HEAD_START: Duration = Duration::from_millis(250);
    let mut addresses = addresses.into_iter();
    let nowhere = || io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    let first = addresses.next().ok_or_else(nowhere)?;
    race(HEAD_START, first, addresses, tokio::net::TcpStream::connect).await
}

/// Returns the addresses of a host, alternating between IPv4 and IPv6.
pub(crate) async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    // A host that was taken from a URL may be an IPv6 address in brackets.
    Ok(in_turn(lookup_host((host.trim_matches(['[', ']']), port)).await?.collect()))
}

/// Reorders addresses so that IPv4 and IPv6 alternate. The first address stays first.
fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (same, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == is_v6);
    let mut other = other.into_iter();
    let mut ordered = Vec::new();
    for address in same {
        ordered.push(address);
        ordered.extend(other.next());
    }
    ordered.extend(other);
    ordered
}

/// Tries the candidates concurrently, and returns the result of the first attempt that succeeds. Each attempt starts
/// `head_start` after the previous one, or as soon as an attempt fails. If all attempts fail, returns the error of the
/// first failure.
pub(crate) async fn race<C, T, E, F: Future<Output = Result<T, E>>>(
    head_start: Duration,
    first: C,
    others: impl IntoIterator<Item = C>,
    attempt: impl Fn(C) -> F,
) -> Result<T, E> {
    let mut others = others.into_iter().peekable();
    let mut running: FuturesUnordered<F> = std::iter::once(attempt(first)).collect();
    let mut failure = None;
    loop {
        let ended = tokio::select! {
            biased;
            ended = running.next() => ended,
            () = sleep(head_start), if others.peek().is_some() => None,
        };
        match ended {
            Some(Ok(won)) => return Ok(won),
            Some(Err(error)) => {
                let error = failure.take().unwrap_or(error);
                if running.is_empty() && others.peek().is_none() {
                    return Err(error);
                }
                failure = Some(error);
            }
            None => {}
        }
        running.extend(others.next().map(&attempt));
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_that_answers_wins_and_a_dead_one_holds_nobody_up() {
        const HEAD_START: Duration = Duration::from_millis(250);
        // The result of an attempt, and the milliseconds after which it completes. With `None`, it never completes.
        type Does = (Option<Result<&'static str, &'static str>>, u64);
        let attempt = |(does, after): Does| async move {
            sleep(Duration::from_millis(after)).await;
            match does {
                None => pending().await,
                Some(does) => does,
            }
        };
        let (dead, refused) = ((None, 0), (Some(Err("refused")), 0));
        let cases: [(&[Does], Result<&str, &str>, u128); 5] = [
            (&[(Some(Ok("first")), 200), (Some(Ok("second")), 0)], Ok("first"), 200),
            (&[dead, (Some(Ok("second")), 10)], Ok("second"), 260),
            (&[dead, dead, (Some(Ok("third")), 0)], Ok("third"), 500),
            (&[refused, (Some(Ok("second")), 0)], Ok("second"), 0),
            (&[refused, (Some(Err("later")), 100)], Err("refused"), 100),
        ];
        for (candidates, expected, after) in cases {
            #[expect(clippy::disallowed_methods, reason = "the runtime's clock is paused")]
            let begin = tokio::time::Instant::now();
            let (first, others) = candidates.split_first().unwrap();
            assert_eq!(race(HEAD_START, *first, others.iter().copied(), attempt).await, expected);
            // Each Tokio timer may be a millisecond late.
            let waited = begin.elapsed().as_millis();
            assert!((after..after + 10).contains(&waited), "{expected:?} after {waited} ms");
        }
    }

    #[cfg(feature = "smtp")]
    #[tokio::test]
    async fn a_host_is_reached_at_whichever_of_its_addresses_listens() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        // Nothing listens at this address.
        let dead = SocketAddr::from(([127, 0, 0, 2], there.port()));
        for addresses in [vec![there], vec![there, dead], vec![dead, there], vec![dead, dead, there]] {
            let reached = connect_to_any(addresses).await.unwrap();
            assert_eq!(reached.peer_addr().unwrap(), there);
        }
        assert_eq!(connect_to_any(vec![dead]).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect_to_any(Vec::new()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn both_families_have_their_turn() {
        let addresses = |all: &[&str]| all.iter().map(|address| address.parse().unwrap()).collect::<Vec<SocketAddr>>();
        for (found, ordered) in [
            (&["[::1]:1", "[::2]:1", "10.0.0.1:1"][..], &["[::1]:1", "10.0.0.1:1", "[::2]:1"][..]),
            (&["10.0.0.1:1", "[::1]:1", "[::2]:1"], &["10.0.0.1:1", "[::1]:1", "[::2]:1"]),
            (&[], &[]),
        ] {
            assert_eq!(in_turn(addresses(found)), addresses(ordered));
        }
    }
}
