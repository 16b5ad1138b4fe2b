//! The API as a fairing: mounted at ignition, sending e-mails from lift-off, finishing at shutdown.

use std::collections::HashSet;
use std::error::Error;
use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use delivery_core::delivery::{Running, Settings};
use delivery_core::http::Endpoint;
use delivery_core::{Delivery, ErrorCode, explain};
use http::Extensions;
use rocket::fairing::{self, Fairing, Info, Kind};
use rocket::futures::future::BoxFuture;
use rocket::http::Method::{Connect, Delete, Get, Head, Options, Patch, Post, Put, Trace};
use rocket::http::uri::Origin;
use rocket::{Build, Catcher, Data, Orbit, Request, Response, Rocket, Route};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::exchange::{self, Api, Extend, Mounted};

type Failure = Box<dyn Error + Send + Sync>;
type Builder = dyn FnOnce(&Rocket<Build>) -> BoxFuture<'static, Result<Delivery, Failure>> + Send;

/// The API as a fairing. An application can have one.
///
/// At ignition it mounts every endpoint, and aborts the launch if the store was created with another signing secret. From
/// lift-off it sends e-mails. At shutdown it waits for open requests and e-mails in progress, at most for Rocket's own
/// grace and mercy periods. The store closes when the last handle is dropped, or with [`Delivery::close`] after the
/// launch.
///
/// The service becomes managed state, unless the host application manages one itself. Handlers take `&State<Delivery>`.
#[must_use = "it does nothing unless attached"]
pub struct DeliveryFairing {
    base: String,
    /// `None` means all endpoints that the service can serve.
    endpoints: Option<Vec<Endpoint>>,
    extend: Extend,
    /// `None` once the fairing was mounted.
    build: Mutex<Option<Box<Builder>>>,
    running: Mutex<Option<Running>>,
    open: TaskTracker,
}

impl DeliveryFairing {
    /// Mounts `delivery` at `/`.
    pub fn new(delivery: Delivery) -> Self {
        Self::built(Box::new(move |_| Box::pin(ready(Ok(delivery)))))
    }

    /// Mounts the service that `build` makes of the [`Settings`] in Rocket's own configuration: in `[default.delivery]`
    /// of `Rocket.toml`, or in `ROCKET_DELIVERY`. Settings that make no sense, and a failure of `build`, abort the launch
    /// with a line in Rocket's log. A line that names `ADMIN_TOKEN` means `admin_token` here. `build` is called once, so it can
    /// take what it captures by value.
    pub fn configured<F>(build: impl FnOnce(Settings) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Delivery, Failure>> + Send + 'static,
    {
        Self::built(Box::new(move |rocket| match rocket.figment().extract_inner("delivery") {
            Ok(settings) => Box::pin(build(settings)),
            Err(error) => Box::pin(ready(Err(error.into()))),
        }))
    }

    fn built(build: Box<Builder>) -> Self {
        let (build, running) = (Mutex::new(Some(build)), Mutex::default());
        let extend = Arc::new(|_: &Request<'_>, _: &mut Extensions| {});
        Self { base: String::new(), endpoints: None, extend, build, running, open: TaskTracker::new() }
    }

    /// Mounts under `base` instead, a path such as `/shop`; anything else aborts the launch.
    pub fn at(self, base: &str) -> Self {
        Self { base: base.trim_end_matches('/').to_owned(), ..self }
    }

    /// Mounts only these endpoints. By default all endpoints are mounted that the service
    /// [can serve](Endpoint::served_by). Without `Endpoint::Product`, also set
    /// [`mail_links`](delivery_core::delivery::Builder::mail_links), so that e-mails do not link to what is not mounted.
    pub fn endpoints(self, endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        Self { endpoints: Some(endpoints.into_iter().collect()), ..self }
    }

    /// Calls `extend` for each request before it is answered. `extend` adds the host application's own user to the
    /// extensions, where a [`Seller`](delivery_core::seller::Seller) looks for it. `extend` can read everything in Rocket's
    /// request: private cookies, managed state, and what a guard or a fairing has put into the request's local cache.
    ///
    /// ```
    /// use delivery_rocket::DeliveryFairing;
    /// # use delivery_rocket::delivery_core::Delivery;
    ///
    /// #[derive(Clone)]
    /// struct User(String);
    ///
    /// # fn fairing(delivery: Delivery) -> DeliveryFairing {
    /// DeliveryFairing::new(delivery).extensions(|request, extensions| {
    ///     // With Rocket's feature `secrets`: `get_private`.
    ///     if let Some(user) = request.cookies().get("user") {
    ///         extensions.insert(User(user.value().to_owned()));
    ///     }
    /// })
    /// # }
    /// ```
    pub fn extensions(self, extend: impl Fn(&Request<'_>, &mut Extensions) + Send + Sync + 'static) -> Self {
        Self { extend: Arc::new(extend), ..self }
    }

    async fn prepare(&self, rocket: &Rocket<Build>) -> Result<Delivery, Failure> {
        let path = |base: &str| Origin::parse(base).is_ok_and(|path| path.is_normalized() && path.query().is_none());
        if !self.base.is_empty() && !path(&self.base) {
            return Err("the base must be a path such as /shop".into());
        }
        let build = self.build.lock().await.take().ok_or("the fairing was mounted before")?;
        let delivery = build(rocket).await?;
        delivery.register().await?;
        Ok(delivery)
    }
}

/// The endpoints that this application mounts, and where.
struct Ours {
    base: String,
    endpoints: Vec<Endpoint>,
}

impl Ours {
    fn has(&self, path: &str) -> bool {
        let path = path.strip_prefix(&self.base);
        path.is_some_and(|path| self.endpoints.iter().any(|endpoint| endpoint.is_at(path)))
    }
}

#[rocket::async_trait]
impl Fairing for DeliveryFairing {
    fn info(&self) -> Info {
        let kind = Kind::Ignite | Kind::Liftoff | Kind::Request | Kind::Response | Kind::Shutdown | Kind::Singleton;
        Info { name: "Delivery", kind }
    }

    async fn on_ignite(&self, mut rocket: Rocket<Build>) -> fairing::Result {
        let delivery = match self.prepare(&rocket).await {
            Ok(delivery) => delivery,
            Err(error) => {
                rocket::error!("The delivery API cannot be mounted: {}", explain(error.as_ref()));
                return Err(rocket);
            }
        };
        let mut endpoints = self.endpoints.clone().unwrap_or_else(|| Endpoint::served_by(&delivery).collect());
        // A host may name an endpoint twice.
        let mut paths = HashSet::new();
        endpoints.retain(|endpoint| paths.insert(endpoint.path()));
        for &endpoint in &endpoints {
            let path = format!("{}{}", self.base, endpoint.path());
            let api =
                Api { endpoint, base: self.base.clone(), delivery: delivery.clone(), extend: self.extend.clone() };
            // The parameters of a path, such as `{ticket}`, are `<ticket>` for Rocket.
            let at = path.replace('{', "<").replace('}', ">");
            // Wrong methods are answered by the API too: those Rocket knows by routes, others by a catcher.
            let routes = [Get, Put, Post, Delete, Options, Head, Trace, Connect, Patch]
                .map(|method| Route::new(method, &at, api.clone()));
            let unreadable = Catcher::new(ErrorCode::InvalidParams.status(), api);
            // A catcher has no parameters. One for all that follows answers 404 to a path that is not the endpoint's.
            let fixed = path.split("/{").next().unwrap_or(&path).to_owned();
            rocket = rocket.mount("/", routes).register(fixed, vec![unreadable]);
        }
        if rocket.state::<Delivery>().is_none() {
            rocket = rocket.manage(delivery.clone());
        }
        Ok(rocket.manage(Mounted(delivery)).manage(Ours { base: self.base.clone(), endpoints }))
    }

    async fn on_liftoff(&self, rocket: &Rocket<Orbit>) {
        let Some(Mounted(delivery)) = rocket.state() else { return };
        match delivery.start().await {
            Ok(running) => *self.running.lock().await = Some(running),
            Err(error) => {
                rocket::error!("The delivery API cannot start: {}", explain(&error));
                rocket.shutdown().notify();
            }
        }
    }

    async fn on_request(&self, request: &mut Request<'_>, data: &mut Data<'_>) {
        // Kept with the request until its answer is sent.
        request.local_cache(|| self.open.token());
        exchange::asked_method(request);
        if !request.content_type().is_some_and(|kind| kind.is_form()) {
            return;
        }
        let path = request.uri().path().as_str();
        if request.rocket().state().is_some_and(|ours: &Ours| ours.has(path)) {
            exchange::restore_method(request, data).await;
        }
    }

    async fn on_response<'r>(&self, request: &'r Request<'_>, response: &mut Response<'r>) {
        if response.status() == crate::grant::REFUSED {
            exchange::write(crate::grant::refusal(request), response);
        }
    }

    async fn on_shutdown(&self, rocket: &Rocket<Orbit>) {
        let Some(running) = self.running.lock().await.take() else { return };
        running.stop_sending();
        self.open.close();
        let shutdown = &rocket.config().shutdown;
        let patience = Duration::from_secs(u64::from(shutdown.grace) + u64::from(shutdown.mercy));
        // Rocket closes the connections of requests that take longer.
        let _ = tokio::time::timeout(patience, self.open.wait()).await;
        running.finish_sending().await;
        // Rocket checks only once whether all connections are closed. Without this pause, it would wait for its whole
        // grace period if the last connection is just closing.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
