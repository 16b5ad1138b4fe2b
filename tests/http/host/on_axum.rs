//! The application on axum.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, FromRef};
use axum::routing::get;
use delivery_axum::{Grant, GrantRejection};
use delivery_core::Delivery;
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tower::ServiceExt;
use tower_http::catch_panic::CatchPanicLayer;

use super::Stop;

pub struct Host(Router);

#[derive(Clone)]
struct State {
    delivery: Delivery,
}

impl FromRef<State> for Delivery {
    fn from_ref(state: &State) -> Self {
        state.delivery.clone()
    }
}

impl Host {
    pub fn open(delivery: Delivery) -> Self {
        let app = Router::<State>::new()
            .route("/hello", get(|| async { "hello" }))
            .route("/panics", get(panics))
            .route("/guarded", get(async |grant: Grant| format!("used {} times", grant.key().used())))
            .route("/counted", get(counted))
            .route(
                "/lenient",
                get(async |grant: Result<Grant, GrantRejection>| if grant.is_ok() { "in" } else { "a sample" }),
            )
            .nest("/nested", delivery_axum::router(delivery.clone()))
            .merge(delivery_axum::router(delivery.clone()))
            .fallback_service(delivery_axum::unknown(delivery.clone()))
            .layer(CatchPanicLayer::custom(|_| delivery_axum::internal()))
            .with_state(State { delivery });
        Self(app)
    }

    pub async fn serve(self) -> (SocketAddr, Stop) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = self.0.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
        (address, Box::pin(async move { task.abort() }))
    }

    pub async fn send(&self, request: Request<String>, peer: Option<IpAddr>) -> Response<String> {
        let mut request = request.map(Body::from);
        if let Some(peer) = peer {
            request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer, 50_000)));
        }
        let (head, body) = self.0.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(head, String::from_utf8(body.to_vec()).unwrap())
    }
}

async fn panics() -> &'static str {
    std::panic::resume_unwind(Box::new("a route of the host's panicked"))
}

async fn counted(grant: Grant) -> Result<String, GrantRejection> {
    let key = grant.count_use(grant.key().product()).await?;
    Ok(format!("used {} times", key.used()))
}
