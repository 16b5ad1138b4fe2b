//! The API as a fairing: mounted at ignition, sending letters from lift-off, finishing at shutdown.

use std::error::Error;
use std::fmt;
use std::future::{Future, ready};
use std::time::Duration;

use delivery_core::Delivery;
use delivery_core::delivery::{Running, Settings};
use delivery_core::http::Endpoint;
use rocket::fairing::{self, Fairing, Info, Kind};
use rocket::futures::future::BoxFuture;
use rocket::http::Method::{Connect, Delete, Get, Head, Options, Patch, Post, Put, Trace};
use rocket::{Build, Catcher, Orbit, Request, Response, Rocket, Route};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::exchange::{self, Api};
use crate::grant;

type Failure = Box<dyn Error + Send + Sync>;
type Builder = dyn Fn(&Rocket<Build>) -> BoxFuture<'static, Result<Delivery, Failure>> + Send + Sync;

/// The API as a fairing; one of them an application.
///
/// At ignition it mounts every endpoint, and makes sure that the store was made with this signing secret: a launch with
/// another one is aborted. From lift-off it sends letters. At shutdown it lets open requests and letters under way end,
/// for as long as Rocket's own grace and mercy, and closes the store.
///
/// The service becomes managed state: handlers take `&State<Delivery>`, and [`Grant`](crate::Grant) works.
pub struct DeliveryFairing {
    base: String,
    build: Box<Builder>,
    running: Mutex<Option<Running>>,
    open: TaskTracker,
}

/// The service that this application mounts.
pub(crate) struct Mounted(pub(crate) Delivery);

impl DeliveryFairing {
    /// Mounts `delivery` at `/`.
    #[must_use]
    pub fn new(delivery: Delivery) -> Self {
        Self::built(Box::new(move |_| Box::pin(ready(Ok(delivery.clone())))))
    }

    /// Mounts the service that `build` makes of the settings in Rocket's own configuration, in the table `delivery` of
    /// `Rocket.toml` or in `ROCKET_DELIVERY`. [`Settings`] says which there are. Settings that make no sense, and a
    /// failure of `build`, abort the launch with a line in Rocket's log.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use delivery_core::{delivery::Settings, store::MemoryStore, testing::RecordingMailer};
    /// use delivery_rocket::DeliveryFairing;
    ///
    /// let fairing = DeliveryFairing::configured(|settings: Settings| async {
    ///     let store = Arc::new(MemoryStore::new());
    ///     Ok(settings.builder(store, Arc::new(RecordingMailer::default())).build())
    /// });
    /// ```
    #[must_use]
    pub fn configured<B, F>(build: B) -> Self
    where
        B: Fn(Settings) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Delivery, Failure>> + Send + 'static,
    {
        Self::built(Box::new(move |rocket| match rocket.figment().extract_inner("delivery") {
            Ok(settings) => Box::pin(build(settings)),
            Err(error) => Box::pin(ready(Err(error.into()))),
        }))
    }

    fn built(build: Box<Builder>) -> Self {
        Self { base: "/".to_owned(), build, running: Mutex::default(), open: TaskTracker::new() }
    }

    /// Mounts under `base` instead, a path such as `/shop`.
    #[must_use]
    pub fn at(self, base: impl Into<String>) -> Self {
        Self { base: base.into(), ..self }
    }
}

#[rocket::async_trait]
impl Fairing for DeliveryFairing {
    fn info(&self) -> Info {
        let kind = Kind::Ignite | Kind::Liftoff | Kind::Response | Kind::Shutdown | Kind::Singleton;
        Info { name: "Delivery", kind }
    }

    async fn on_ignite(&self, mut rocket: Rocket<Build>) -> fairing::Result {
        let prepared = async {
            let delivery = (self.build)(&rocket).await?;
            delivery.enroll().await?;
            Ok::<_, Failure>(delivery)
        };
        let delivery = match prepared.await {
            Ok(delivery) => delivery,
            Err(error) => {
                rocket::error!("The delivery API cannot be mounted: {error}");
                return Err(rocket);
            }
        };
        for endpoint in Endpoint::ALL {
            let path = format!("{}{}", self.base.trim_end_matches('/'), endpoint.path());
            let api = Api { endpoint, path: path.clone(), delivery: delivery.clone(), open: self.open.clone() };
            // Wrong methods are answered by the API too: those Rocket knows by routes, others by the catcher.
            let routes = [Get, Put, Post, Delete, Options, Head, Trace, Connect, Patch]
                .map(|method| Route::new(method, endpoint.path(), api.clone()));
            rocket = rocket.mount(self.base.clone(), routes).register(path, vec![Catcher::new(None, api)]);
        }
        Ok(rocket.manage(Mounted(delivery.clone())).manage(delivery))
    }

    async fn on_liftoff(&self, rocket: &Rocket<Orbit>) {
        let Some(Mounted(delivery)) = rocket.state() else { return };
        match delivery.start().await {
            Ok(running) => *self.running.lock().await = Some(running),
            Err(error) => {
                rocket::error!("The delivery API cannot start: {error}");
                rocket.shutdown().notify();
            }
        }
    }

    async fn on_response<'r>(&self, request: &'r Request<'_>, response: &mut Response<'r>) {
        if response.status() == grant::REFUSED {
            exchange::write(grant::refusal(request), response);
        }
    }

    async fn on_shutdown(&self, rocket: &Rocket<Orbit>) {
        let Some(running) = self.running.lock().await.take() else { return };
        running.stop_sending();
        self.open.close();
        let shutdown = &rocket.config().shutdown;
        let patience = Duration::from_secs(u64::from(shutdown.grace) + u64::from(shutdown.mercy));
        // What takes longer loses its connection anyway.
        let _ = tokio::time::timeout(patience, self.open.wait()).await;
        running.stop().await;
    }
}

impl fmt::Debug for DeliveryFairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveryFairing").field("base", &self.base).finish_non_exhaustive()
    }
}
