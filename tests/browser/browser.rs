//! Chromium, driven as a person would: by what is on the page.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Duration;

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::{ParseError, Url};

use support::{free_port, programs, supervise, wait_for};

/// A program that starts browsers, and ends with this process.
struct Driver {
    port: u16,
    chromium: PathBuf,
    /// Ends the program when its standard input is closed.
    _supervisor: Child,
}

/// The driver of this test binary.
fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER
        .get_or_init(|| Driver::start(&programs::folder("chromedriver"), programs::folder("chromium").join("chromium")))
}

impl Driver {
    fn start(binaries: &Path, chromium: PathBuf) -> Self {
        let folder = tempfile::Builder::new().prefix("delivery-browser-").tempdir().unwrap().keep();
        let port = free_port();
        let script = r#"export HOME="$2" TMPDIR="$2"; "$1/chromedriver" --port="$3" >/dev/null 2>&1 & driver=$!
            cat >/dev/null; pkill -P $driver; kill $driver; wait $driver; rm -rf "$2""#;
        let supervisor = supervise(Command::new("sh"), script, binaries, &folder, port);
        wait_for(Duration::from_mins(1), || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { port, chromium, _supervisor: supervisor }
    }
}

/// How a page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// In CSS pixels.
    pub width: u32,
    pub dark: bool,
    pub scripts: bool,
}

impl Default for View {
    fn default() -> Self {
        Self { width: 1280, dark: false, scripts: true }
    }
}

/// A browser with a profile of its own.
pub struct Browser {
    client: Client,
    site: String,
}

impl Browser {
    /// Opens one for the site at this address.
    pub async fn open(site: &str, view: View) -> Self {
        let driver = driver();
        // The sandbox needs a kernel that lets this user make namespaces, which containers do not.
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en"];
        let options = json!({ "binary": driver.chromium, "args": arguments });
        let capabilities = json!({ "browserName": "chrome", "goog:chromeOptions": options });
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities.as_object().unwrap().clone());
        let client = builder.connect(&format!("http://127.0.0.1:{}", driver.port)).await.unwrap();
        let browser = Self { client, site: site.to_owned() };
        browser.view(view).await;
        browser
    }

    /// Looks at pages in another way from now on.
    pub async fn view(&self, View { width, dark, scripts }: View) {
        let scheme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
        self.tell("Emulation.setEmulatedMedia", json!({ "features": [scheme] })).await;
        self.resize(width).await;
        self.tell("Emulation.setScriptExecutionDisabled", json!({ "value": !scripts })).await;
    }

    /// Makes the window so wide, in CSS pixels.
    pub async fn resize(&self, width: u32) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.tell("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Tells the browser itself something, by its developer tools.
    pub async fn tell(&self, command: &str, parameters: Value) -> Value {
        let command = json!({ "cmd": command, "params": parameters });
        self.client.issue_cmd(Tell(command)).await.unwrap()
    }

    /// Types an address.
    pub async fn go(&self, path: &str) {
        self.client.goto(&format!("{}{path}", self.site)).await.unwrap();
    }

    pub async fn reload(&self) {
        self.client.refresh().await.unwrap();
    }

    /// Goes back, as with the browser's button.
    pub async fn back(&self) {
        self.client.back().await.unwrap();
    }

    /// The path of the page, with what is behind it.
    pub async fn path(&self) -> String {
        let url = self.client.current_url().await.unwrap();
        url.as_str().trim_start_matches(&self.site).to_owned()
    }

    /// Clicks on the link or the button that says so, and waits for the page that it leads to.
    pub async fn click(&self, says: &str) {
        let says = says.replace('"', "");
        let path = format!("//*[self::a or self::button or self::summary][normalize-space()=\"{says}\"]");
        let found = self.client.find(Locator::XPath(&path)).await;
        let Ok(found) = found else { panic!("nothing to click on says {says}:\n{}", self.text().await) };
        self.run("window.isLeft = false").await;
        found.click().await.unwrap();
        assert!(self.comes(|| self.is_loaded()).await, "{says} leads nowhere:\n{}", self.text().await);
    }

    /// Unfolds what is below the line that says so.
    pub async fn unfold(&self, says: &str) {
        let path = format!("//summary[starts-with(normalize-space(), \"{says}\")]");
        self.client.find(Locator::XPath(&path)).await.unwrap().click().await.unwrap();
    }

    /// Whether another page has come since the last click.
    async fn is_loaded(&self) -> bool {
        const LOADED: &str = "return window.isLeft === undefined && document.readyState === 'complete'";
        self.client.execute(LOADED, Vec::new()).await.is_ok_and(|it| it == true)
    }

    /// Clicks on the button that says so, and waits for nothing.
    pub async fn press_button(&self, says: &str) {
        let path = format!("//button[normalize-space()=\"{says}\"]");
        self.client.find(Locator::XPath(&path)).await.unwrap().click().await.unwrap();
    }

    /// Clicks on the first element of a CSS selector, and waits for nothing.
    pub async fn press_at(&self, selector: &str) {
        self.client.find(Locator::Css(selector)).await.unwrap().click().await.unwrap();
    }

    /// Types into the field with this label, in place of what was in it.
    pub async fn fill(&self, label: &str, text: &str) {
        let path = format!("//*[@id=//label[normalize-space()=\"{label}\"]/@for]");
        let found = self.client.find(Locator::XPath(&path)).await;
        let Ok(field) = found else { panic!("no field is labelled {label}:\n{}", self.text().await) };
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Chooses files in the field with this label.
    pub async fn choose(&self, label: &str, files: &[PathBuf]) {
        let path = format!("//*[@id=//label[normalize-space()=\"{label}\"]/@for]");
        let paths: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
        self.client.find(Locator::XPath(&path)).await.unwrap().send_keys(&paths.join("\n")).await.unwrap();
    }

    /// Types into the field with this label, and presses Enter.
    pub async fn enter(&self, label: &str, text: &str) {
        self.run("window.isLeft = false").await;
        self.fill(label, &format!("{text}\n")).await;
        assert!(self.comes(|| self.is_loaded()).await, "{label} leads nowhere:\n{}", self.text().await);
    }

    /// Chooses what says so in the field with this label.
    pub async fn pick(&self, label: &str, says: &str) {
        let path = format!("//*[@id=//label[normalize-space()=\"{label}\"]/@for]/option[normalize-space()=\"{says}\"]");
        self.client.find(Locator::XPath(&path)).await.unwrap().click().await.unwrap();
    }

    /// Clicks on a label, as on a box to tick.
    pub async fn tick(&self, label: &str) {
        let path = format!("//label[normalize-space()=\"{label}\"]");
        self.client.find(Locator::XPath(&path)).await.unwrap().click().await.unwrap();
    }

    /// Clicks on the link or the button that says so, and returns the contents of this file, which the browser saves in `folder`.
    pub async fn download(&self, says: &str, file: &str, folder: &Path) -> String {
        let allowed = json!({ "behavior": "allow", "downloadPath": folder });
        self.tell("Browser.setDownloadBehavior", allowed).await;
        let path = format!("//*[self::a or self::button][normalize-space()=\"{says}\"]");
        self.client.find(Locator::XPath(&path)).await.unwrap().click().await.unwrap();
        let saved = folder.join(file);
        // Chromium makes an empty file of that name first, and replaces it when it has the whole.
        let is_saved = async || std::fs::metadata(&saved).is_ok_and(|file| file.len() > 0);
        assert!(self.comes(is_saved).await, "{says} is not saved:\n{}", self.text().await);
        let content = std::fs::read_to_string(&saved).unwrap();
        std::fs::remove_file(saved).unwrap();
        content
    }

    /// What a person reads. The page may be about to give way to the next one.
    pub async fn text(&self) -> String {
        for _ in 0..20 {
            if let Ok(body) = self.client.find(Locator::Css("body")).await
                && let Ok(text) = body.text().await
            {
                return text;
            }
        }
        panic!("no page stays");
    }

    /// What stands in the field.
    pub async fn value(&self, selector: &str) -> String {
        let field = self.client.find(Locator::Css(selector)).await.unwrap();
        field.prop("value").await.unwrap().unwrap_or_default()
    }

    /// The text of what is found first.
    async fn text_of(&self, selector: &str) -> Option<String> {
        self.client.find(Locator::Css(selector)).await.ok()?.text().await.ok()
    }

    /// Asserts that a person can read this on the page, once it is there.
    pub async fn reads(&self, expected: &str) {
        let is_read = self.comes(async || self.text().await.contains(expected)).await;
        assert!(is_read, "{expected} is not in\n{}", self.text().await);
    }

    /// Asserts that the page is at this path, once it is there.
    pub async fn is_at(&self, path: &str) {
        let is_there = self.comes(async || self.path().await == path).await;
        assert!(is_there, "{} instead of {path}\n{}", self.path().await, self.text().await);
    }

    /// Asserts that what is found first has this text, once it is there.
    pub async fn shows(&self, selector: &str, text: &str) {
        let is_shown = self.comes(async || self.text_of(selector).await.as_deref() == Some(text)).await;
        assert!(is_shown, "{selector} is not {text} in\n{}", self.text().await);
    }

    /// Whether something is so within half a minute.
    async fn comes(&self, is_so: impl AsyncFn() -> bool) -> bool {
        for _ in 0..600 {
            if is_so().await {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// Runs a function's body in the page, for tests that measure it.
    pub async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    /// The same for one that answers by its last argument.
    pub async fn run_later(&self, script: &str) -> Value {
        self.client.execute_async(script, Vec::new()).await.unwrap()
    }

    /// Presses the Tab key so often.
    pub async fn tab(&self, times: u64) {
        const TAB: char = '\u{e004}';
        let keys = (0..times).fold(KeyActions::new("keys".to_owned()), |keys, _| {
            keys.then(KeyAction::Down { value: TAB }).then(KeyAction::Up { value: TAB })
        });
        self.client.perform_actions(keys).await.unwrap();
    }

    pub async fn close(self) {
        self.client.close().await.unwrap();
    }
}

/// A command of the browser's developer tools.
#[derive(Debug)]
struct Tell(Value);

impl WebDriverCompatibleCommand for Tell {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _url: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.0.to_string()))
    }
}
