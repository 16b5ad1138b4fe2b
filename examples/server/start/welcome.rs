//! What the first start prints: where things are, and three lines to try.

use std::net::SocketAddr;
use std::path::Path;

use super::secrets::Secrets;
use crate::settings::Settings;

/// The greeting of a start that made secrets; `None` if this start made none.
pub(crate) fn greeting(secrets: &Secrets, settings: &Settings, address: SocketAddr) -> Option<String> {
    if secrets.made.is_empty() {
        return None;
    }
    let base = format!("http://{address}");
    // Absolute paths, because the lines may be pasted into a terminal with another working folder.
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let file = quoted(&absolute(&secrets.file));
    let answer = quoted(&absolute(&settings.data_dir.join("first-order.json")));
    // Configured secrets are not printed. The lines contain the name of their file or environment variable instead.
    let secret = |name: &str| {
        if let Some(file) = settings.given.files.get(name) {
            format!("$(cat {})", quoted(&absolute(file)))
        } else if secrets.configured.contains(&name) {
            format!("${name}")
        } else {
            format!("$(sed -n 's/^{name}=//p' {file})")
        }
    };
    let (admin, webhook) = (secret("ADMIN_TOKEN"), secret("WEBHOOK_SECRET"));
    Some(format!(
        r##"
  Digital delivery at {base}
  Secrets were made: {path}

  Add a product, send a paid order, fetch the product with its key:

curl -s {base}/api/admin/product -H "Authorization: Bearer {admin}" -H "Content-Type: application/json" -d '{{"name":"Field Guide","content":"# Field Guide\n\nThank you for reading.","price":9.99}}'; echo
curl -s {base}/api/webhook/order -H "Content-Type: application/json" -d '{{"order_id":"first","product_id":1,"customer_email":"buyer@example.com","secret":"'"{webhook}"'"}}' | (umask 077; tee {answer}); echo
curl -s "{base}/api/product?product_id=1" -H "Authorization: Bearer $(sed -n 's/.*"api_key":"\([^"]*\)".*/\1/p' {answer})"; echo

"##,
        path = absolute(&secrets.file).display(),
    ))
}

/// Quotes a path for a shell if necessary.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    if plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}
