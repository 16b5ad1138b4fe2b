//! The document as a value of the crate `utoipa`, for host applications that describe their own API with that crate.

use utoipa::openapi::OpenApi;

use super::with_own;
use crate::http::Endpoint;

/// Returns the OpenAPI document of these endpoints, without server URLs. Nest it into the host application's own
/// document, under the path where the endpoints are mounted. The document does not describe the signatures and bodies
/// of requests from commerce platforms that the host application adds.
///
/// ```
/// use delivery_core::http::{Endpoint, openapi};
/// use utoipa::openapi::OpenApi;
///
/// fn describe(host: OpenApi) -> OpenApi {
///     host.nest("/shop", openapi([Endpoint::Validate, Endpoint::Product]))
/// }
/// ```
#[must_use]
pub fn openapi(endpoints: impl IntoIterator<Item = Endpoint>) -> OpenApi {
    let paths: Vec<&str> = endpoints.into_iter().map(Endpoint::path).collect();
    let own = paths.iter().copied().filter(|path| path.starts_with("/api/webhook/"));
    // Parsing cannot fail, because the document is a constant and a test parses it.
    let mut document: OpenApi = serde_json::from_value(with_own(own)).unwrap_or_default();
    document.servers = None;
    document.paths.paths.retain(|path, _| paths.contains(&path.as_str()));
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::OPENAPI;

    #[test]
    fn the_value_has_the_endpoints_that_were_asked_for_and_all_that_they_refer_to() {
        let document = openapi([Endpoint::Product, Endpoint::Order]);
        let paths: Vec<&str> = document.paths.paths.keys().map(String::as_str).collect();
        assert_eq!(paths, [Endpoint::Product.path(), Endpoint::Order.path()]);
        let text = serde_json::to_string(&document).unwrap();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document.components.as_ref().unwrap().schemas.contains_key(name), "{name}");
        }
        let all = openapi(Endpoint::all());
        let known: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        assert_eq!(serde_json::to_value(&all.paths).unwrap(), known["paths"], "nothing is lost");
    }

    #[test]
    fn of_a_platform_of_the_hosts_own_only_the_answers_are_known() {
        let path = crate::http::PlatformPath::new("/api/webhook/kiosk").unwrap();
        let document = serde_json::to_value(openapi([Endpoint::Platform(path)])).unwrap();
        let operation = &document["paths"]["/api/webhook/kiosk"]["post"];
        assert_eq!(operation["operationId"], "kioskEvent");
        assert!(operation["parameters"].is_null() && operation["responses"]["200"].is_object(), "{operation}");
    }
}
