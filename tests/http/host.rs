//! The application around the API, on both frameworks: routes of its own, a guarded one, one that panics, and the API
//! once more under a base.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use delivery_core::Delivery;
use http::{Request, Response};

mod on_axum;
mod on_rocket;

/// Which framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    Axum,
    Rocket,
}

impl Framework {
    pub const ALL: [Self; 2] = [Self::Axum, Self::Rocket];

    pub fn name(self) -> &'static str {
        match self {
            Self::Axum => "axum",
            Self::Rocket => "rocket",
        }
    }
}

/// The application, in this process.
pub enum Host {
    Axum(on_axum::Host),
    Rocket(Box<on_rocket::Host>),
}

impl Host {
    pub async fn open(framework: Framework, delivery: Delivery) -> Self {
        match framework {
            Framework::Axum => Self::Axum(on_axum::Host::open(delivery)),
            Framework::Rocket => Self::Rocket(Box::new(on_rocket::Host::open(delivery).await)),
        }
    }

    /// The answer to a request from `peer`, if the server says who is calling.
    pub async fn send(&self, request: Request<String>, peer: Option<IpAddr>) -> Response<String> {
        match self {
            Self::Axum(host) => host.send(request, peer).await,
            Self::Rocket(host) => host.send(&request, peer).await,
        }
    }
}

/// Ends a host that listens.
pub type Stop = Pin<Box<dyn Future<Output = ()>>>;

/// The application on a port of its own.
pub async fn serve(framework: Framework, delivery: Delivery) -> (SocketAddr, Stop) {
    match framework {
        Framework::Axum => on_axum::Host::open(delivery).serve().await,
        Framework::Rocket => on_rocket::serve(delivery).await,
    }
}
