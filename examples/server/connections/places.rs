//! How many connections are served at once: in all, and for one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delivery_core::limit::Identity;
use futures_util::FutureExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::coop::unconstrained;

use super::idle::{Conversation, Idle};

/// File descriptors that are reserved for everything else: the database, e-mails, connections to the mail server.
const RESERVED: u64 = 64;
const FEWEST: u64 = 16;
/// This many connections of one address may wait in the queue, or four times as many as are served at once if that is
/// more. Further connections are closed. Served and waiting connections together may use three quarters of the
/// descriptors.
const LINE: usize = 4000;

/// The places of a server. Clones share them.
#[derive(Clone)]
pub(crate) struct Places(Arc<Inner>);

struct Inner {
    /// How many connections the operating system allows.
    descriptors: usize,
    /// A permit for each connection that the operating system allows. A connection that waits in the queue needs one
    /// too.
    sockets: Arc<Semaphore>,
    served: Arc<Semaphore>,
    idle: Idle,
    /// Notified when connections that wait are no longer served.
    closed: Notify,
    /// The maximum number of connections that are served at once for one address.
    most: usize,
    /// The maximum number of connections of one address that are served or in the queue.
    longest: usize,
    addresses: Mutex<HashMap<Identity, Address>>,
}

struct Address {
    served: Arc<Semaphore>,
    connections: usize,
}

/// A connection that was accepted. Its descriptor counts until this is dropped.
pub(crate) struct Accepted {
    places: Places,
    identity: Option<Identity>,
    line: Option<Arc<Semaphore>>,
    /// The place, if one was free when the connection was accepted.
    place: Option<ServingPermit>,
    _socket: OwnedSemaphorePermit,
}

/// The right to be served, until it is dropped.
pub(crate) struct ServingPermit {
    pub(crate) conversation: Arc<Conversation>,
    _own: Option<OwnedSemaphorePermit>,
    _shared: OwnedSemaphorePermit,
}

impl Places {
    /// Raises the process's limit of file descriptors as far as possible. The soft limit of most systems, 1,024, dates
    /// from programs that call `select`. One address gets at most three quarters of the places.
    pub(crate) fn new(connections: usize, per_address: usize) -> Self {
        let descriptors = descriptors().min(Semaphore::MAX_PERMITS);
        let sockets = descriptors;
        let served = connections.min(sockets);
        let most = per_address.min(served - served / 4).max(1);
        let longest = (most + LINE.max(most.saturating_mul(4))).min(sockets - sockets / 4).max(most);
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        let (sockets, served) = (semaphore(sockets), semaphore(served));
        let (idle, closed, addresses) = (Idle::default(), Notify::new(), Mutex::default());
        Self(Arc::new(Inner { descriptors, sockets, served, idle, closed, most, longest, addresses }))
    }

    /// How many connections are open: those that are served, and those in the queue.
    pub(crate) fn open(&self) -> usize {
        // The accept loop always holds one permit for the next connection.
        self.0.descriptors.saturating_sub(self.0.sockets.available_permits()).saturating_sub(1)
    }

    /// Waits until a connection may be accepted.
    pub(crate) async fn socket(&self) -> Option<OwnedSemaphorePermit> {
        self.permit(&self.0.sockets).await
    }

    /// Waits for a permit. If all are taken, closes a connection to [make room](Idle::make_room).
    async fn permit(&self, permits: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        let mut permit = pin!(unconstrained(permits.clone().acquire_owned()));
        // Joins the queue before making room. Otherwise a client that arrives in between would take the permit.
        if let Some(permit) = permit.as_mut().now_or_never() {
            return permit.ok();
        }
        let _wish = self.0.idle.make_room();
        permit.await.ok()
    }

    /// Registers an accepted connection; `None` if its address has too many in the queue. A trusted proxy connects on
    /// behalf of many clients, and is not limited.
    pub(crate) fn accept(&self, socket: OwnedSemaphorePermit, address: IpAddr, trusted: bool) -> Option<Accepted> {
        let mut accepted = Accepted { places: self.clone(), identity: None, line: None, place: None, _socket: socket };
        if !trusted {
            let identity = Identity::from(address);
            let mut addresses = self.addresses();
            let entry = addresses
                .entry(identity)
                .or_insert_with(|| Address { served: Arc::new(Semaphore::new(self.0.most)), connections: 0 });
            if entry.connections >= self.0.longest {
                return None;
            }
            entry.connections += 1;
            (accepted.identity, accepted.line) = (Some(identity), Some(entry.served.clone()));
        }
        // Takes a free place now, so that clients get places in the order in which they connected.
        let own = accepted.line.clone().map(Semaphore::try_acquire_owned).transpose().ok();
        accepted.place =
            own.and_then(|own| Some(self.serving_permit(own, self.0.served.clone().try_acquire_owned().ok()?)));
        Some(accepted)
    }

    fn serving_permit(&self, own: Option<OwnedSemaphorePermit>, shared: OwnedSemaphorePermit) -> ServingPermit {
        ServingPermit { conversation: self.0.idle.begin(), _own: own, _shared: shared }
    }

    /// From now on, connections that wait are not served.
    pub(crate) fn close(&self) {
        self.0.served.close();
        self.addresses().values().for_each(|address| address.served.close());
        self.0.closed.notify_waiters();
    }

    async fn closed(&self) {
        let closed = self.0.closed.notified();
        if !self.0.served.is_closed() {
            closed.await;
        }
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<Identity, Address>> {
        self.0.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accepted {
    /// Waits for a place. `None` if the client sends nothing within `patience`, or leaves, or the server stops.
    pub(crate) async fn place(&mut self, stream: &TcpStream, patience: Duration) -> Option<ServingPermit> {
        if self.place.is_some() {
            return self.place.take();
        }
        // A client joins the queue only after it has sent something.
        let mut first = [0];
        let sent = tokio::select! {
            biased;
            sent = tokio::time::timeout(patience, stream.peek(&mut first)) => sent,
            () = self.places.closed() => return None,
        };
        if !matches!(sent, Ok(Ok(1..))) {
            return None;
        }
        let own = match &self.line {
            Some(line) => Some(line.clone().acquire_owned().await.ok()?),
            None => None,
        };
        let shared = self.places.permit(&self.places.0.served).await?;
        Some(self.places.serving_permit(own, shared))
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        let Some(identity) = self.identity else { return };
        let mut addresses = self.places.addresses();
        if let Some(address) = addresses.get_mut(&identity) {
            address.connections -= 1;
            if address.connections == 0 {
                addresses.remove(&identity);
            }
        }
    }
}

fn descriptors() -> usize {
    let descriptors = rlimit::Resource::NOFILE.get_soft().unwrap_or(u64::MAX);
    let sockets = descriptors.saturating_sub(RESERVED).max(FEWEST);
    usize::try_from(sockets).unwrap_or(usize::MAX)
}
