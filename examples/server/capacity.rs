//! How many connections the operating system lets this process hold.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than a server of this kind ever needs behind a proxy. Each may hold a buffer of 64 KiB while its request comes.
const MOST: u64 = 10_000;
/// Descriptors for everything else: the database, letters, connections to the mail server.
const RESERVED: u64 = 64;
const FEWEST: u64 = 16;

/// Takes as many descriptors as the process may have, and answers how many connections that is good for. The soft limit of
/// most systems, 1,024, dates from programs that call `select`.
pub fn connections() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let descriptors = if raised.is_ok() { maximum } else { current };
    let connections = descriptors.unwrap_or(u64::MAX).saturating_sub(RESERVED).clamp(FEWEST, MOST);
    usize::try_from(connections).unwrap_or(usize::MAX)
}
