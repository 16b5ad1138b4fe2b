//! Files at a storage provider: S3 and what speaks its protocol, Google Cloud Storage, and Azure.

use std::fmt::Display;
use std::sync::Arc;

use async_trait::async_trait;
use delivery_core::files::{LinkTo, Links};
use delivery_core::object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use delivery_core::object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use delivery_core::object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use delivery_core::object_store::path::Path;
use delivery_core::object_store::prefix::PrefixStore;
use delivery_core::object_store::signer::{SignedUrlOptions, Signer};
use delivery_core::object_store::{self, ClientConfigKey, ObjectStore};
use delivery_core::store::StoreError;
use hyper::Method;

/// The time limits of requests to a bucket, whatever the environment says. A whole request is hardly limited, because
/// its body may be a file of gigabytes that is sent on to a slow client. Each read is limited.
const TIMEOUTS: [(ClientConfigKey, &str); 2] =
    [(ClientConfigKey::Timeout, "7 days"), (ClientConfigKey::ReadTimeout, "30 seconds")];

/// A bucket as an object store, and the signer of links to its files.
pub(super) type Bucket = (Arc<dyn ObjectStore>, Arc<dyn Links>);

/// Makes presigned links to the files of a bucket.
#[derive(Debug)]
struct Presigned<S> {
    bucket: Arc<S>,
    prefix: Path,
}

/// Opens `s3://bucket/prefix` and the like. Credentials are read from the provider's usual environment variables.
pub(super) fn read(url: &str) -> Result<Bucket, String> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (_, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(cannot)?;
    match scheme {
        "s3" => {
            let builder = AmazonS3Builder::from_env().with_url(url);
            let limit =
                |builder: AmazonS3Builder, (key, limit)| builder.with_config(AmazonS3ConfigKey::Client(key), limit);
            TIMEOUTS.into_iter().fold(builder, limit).build().map(|bucket| open(bucket, prefix))
        }
        "gs" => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(url);
            let limit = |builder: GoogleCloudStorageBuilder, (key, limit)| {
                builder.with_config(GoogleConfigKey::Client(key), limit)
            };
            TIMEOUTS.into_iter().fold(builder, limit).build().map(|bucket| open(bucket, prefix))
        }
        "az" => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(url);
            let limit =
                |builder: MicrosoftAzureBuilder, (key, limit)| builder.with_config(AzureConfigKey::Client(key), limit);
            TIMEOUTS.into_iter().fold(builder, limit).build().map(|bucket| open(bucket, prefix))
        }
        _ => {
            return Err(
                "must be file://FOLDER, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX".to_owned()
            );
        }
    }
    .map_err(cannot)
}

fn open<S: ObjectStore + Signer>(bucket: S, prefix: Path) -> Bucket {
    let bucket = Arc::new(bucket);
    let objects = Arc::new(PrefixStore::new(bucket.clone(), prefix.clone()));
    (objects, Arc::new(Presigned { bucket, prefix }))
}

fn cannot(error: impl Display) -> String {
    format!("cannot be used: {error}")
}

#[async_trait]
impl<S: Signer> Links for Presigned<S> {
    async fn link(&self, to: LinkTo<'_>) -> Result<String, StoreError> {
        let path: Path = self.prefix.parts().chain(to.path.parts()).collect();
        let named = SignedUrlOptions::new()
            .with_query([("response-content-disposition", to.disposition), ("response-content-type", to.media_type)]);
        let signed = match self.bucket.signed_url_opts(Method::GET, &path, to.lifetime, &named).await {
            // The links of this provider cannot set the name of the file.
            Err(object_store::Error::NotSupported { .. }) => {
                self.bucket.signed_url(Method::GET, &path, to.lifetime).await
            }
            signed => signed,
        };
        let unavailable = |error| StoreError::unavailable_because("no link to a file can be made", error);
        signed.map(String::from).map_err(unavailable)
    }
}
