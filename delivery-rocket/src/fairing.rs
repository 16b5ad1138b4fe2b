//! A fairing that mounts the API at ignition, sends e-mails from lift-off on, and finishes open work at shutdown.

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

/// A fairing that serves the API. An application can attach only one.
///
/// At ignition, the fairing mounts every endpoint. It aborts the launch if the signing secrets do not fit the store.
/// From lift-off on, it sends e-mails. At shutdown, it waits for open requests, at most for Rocket's own grace and
/// mercy periods. E-mails in progress are finished within seconds or returned to the queue. The store closes when the
/// last handle is dropped, or when the host application calls [`Delivery::close`] after the launch has returned.
///
/// The service becomes managed state, unless the host application already manages a `Delivery`. Handlers take
/// `&State<Delivery>`.
#[must_use = "it does nothing unless attached"]
pub struct DeliveryFairing {
    base: String,
    /// The endpoints to mount. With `None`, all endpoints that the service can serve are mounted.
    endpoints: Option<Vec<Endpoint>>,
    extend: Extend,
    /// Builds the service; `None` after it was called.
    build: Mutex<Option<Box<Builder>>>,
    running: Mutex<Option<Running>>,
    open: TaskTracker,
}

impl DeliveryFairing {
    /// Mounts `delivery` at `/`.
    pub fn new(delivery: Delivery) -> Self {
        Self::built(Box::new(move |_| Box::pin(ready(Ok(delivery)))))
    }

    /// Mounts the service that `build` returns. `build` gets the [`Settings`] from Rocket's configuration: from
    /// `[default.delivery]` in `Rocket.toml`, or from `ROCKET_DELIVERY`. If a setting is invalid, or if `build` fails,
    /// the launch is aborted with a line in Rocket's log. The line names a setting in upper case, such as `ADMIN_TOKEN`
    /// for `admin_token`. `build` is called at most once, so it can move the values that it captures.
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

    /// Mounts the endpoints under `base`, a path such as `/shop`, instead of `/`. If `base` is not such a path, the
    /// launch is aborted.
    pub fn at(self, base: &str) -> Self {
        Self { base: base.trim_end_matches('/').to_owned(), ..self }
    }

    /// Mounts only these endpoints. By default, all endpoints that the service [can serve](Endpoint::served_by) are
    /// mounted. If you leave out `Endpoint::Product`, e-mails still contain the URL of that endpoint. Replace the URL
    /// with [`mail_links`](delivery_core::delivery::Builder::mail_links).
    pub fn endpoints(self, endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        Self { endpoints: Some(endpoints.into_iter().collect()), ..self }
    }

    /// Calls `extend` for each request to an endpoint, before the request is handled. `extend` can add values to the
    /// extensions, such as the user whom the host application has signed in. A
    /// [`Seller`](delivery_core::seller::Seller) can read these values. `extend` has access to Rocket's whole request:
    /// its private cookies, its managed state, and the values that guards and fairings have put into its local cache.
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

/// The endpoints that this application mounts, and the path under which it mounts them.
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
        // The host application may have named an endpoint twice. Rocket does not launch with two equal routes.
        let mut paths = HashSet::new();
        endpoints.retain(|endpoint| paths.insert(endpoint.path()));
        for &endpoint in &endpoints {
            let path = format!("{}{}", self.base, endpoint.path());
            let api =
                Api { endpoint, base: self.base.clone(), delivery: delivery.clone(), extend: self.extend.clone() };
            // A parameter of a path, such as `{ticket}`, is written `<ticket>` in Rocket.
            let at = path.replace('{', "<").replace('}', ">");
            // The API also answers requests with a wrong method. There is a route for each method that Rocket knows,
            // and a catcher for all other methods.
            let routes = [Get, Put, Post, Delete, Options, Head, Trace, Connect, Patch]
                .map(|method| Route::new(method, &at, api.clone()));
            let unreadable = Catcher::new(ErrorCode::InvalidParams.status(), api);
            // The path of a catcher cannot have parameters, so it ends before the first parameter of the endpoint. The
            // catcher also gets requests to other paths that begin in the same way, and answers them with 404.
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
        // The request holds this token until its response has been sent. At shutdown, `on_shutdown` waits for all
        // tokens.
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
