//! The settings of commerce platforms: a platform without a secret does not exist.

use clap::Args;

#[derive(Args)]
#[command(next_help_heading = "Commerce platforms")]
#[expect(clippy::doc_markdown, reason = "the text of --help, where Markdown would show")]
pub(crate) struct PlatformArguments {
    /// Signing secret of the Stripe endpoint, whsec_… Without a platform's secret its address answers 404
    #[arg(long, env, hide_env_values = true)]
    stripe_secret: Option<String>,
    /// Previous Stripe secret, also accepted while you replace it
    #[arg(long, env, hide_env_values = true)]
    stripe_secret_old: Option<String>,
    /// Secret that Shopify signs webhooks with
    #[arg(long, env, hide_env_values = true)]
    shopify_secret: Option<String>,
    /// Previous Shopify secret, also accepted while you replace it
    #[arg(long, env, hide_env_values = true)]
    shopify_secret_old: Option<String>,
    /// Signing secret of the Lemon Squeezy webhook
    #[arg(long, env, hide_env_values = true)]
    lemonsqueezy_secret: Option<String>,
    /// Previous Lemon Squeezy secret, also accepted while you replace it
    #[arg(long, env, hide_env_values = true)]
    lemonsqueezy_secret_old: Option<String>,
    /// Secret key of the Paddle Billing notification destination, pdl_ntfset_…
    #[arg(long, env, hide_env_values = true)]
    paddle_secret: Option<String>,
    /// Previous Paddle secret, also accepted while you replace it
    #[arg(long, env, hide_env_values = true)]
    paddle_secret_old: Option<String>,
    /// Seconds that a Paddle signature may be old, 1 to 3600 [default: 5]
    #[arg(long, env)]
    paddle_tolerance: Option<String>,
    /// Token in the address that Gumroad calls, /api/webhook/gumroad?token=…, at least 16 characters
    #[arg(long, env, hide_env_values = true)]
    gumroad_token: Option<String>,
    /// Previous Gumroad token, also accepted while you replace it
    #[arg(long, env, hide_env_values = true)]
    gumroad_token_old: Option<String>,
    /// Your seller_id on Gumroad: events with another one are refused
    #[arg(long, env)]
    gumroad_seller_id: Option<String>,
    /// Secret of the WooCommerce webhooks
    #[arg(long, env, hide_env_values = true)]
    woocommerce_secret: Option<String>,
    /// Previous WooCommerce secret, also accepted while you replace it
    #[arg(long, env, hide_env_values = true)]
    woocommerce_secret_old: Option<String>,
    /// Secret of the Polar webhook endpoint
    #[arg(long, env, hide_env_values = true)]
    polar_secret: Option<String>,
    /// Previous Polar secret, also accepted while you replace it
    #[arg(long, env, hide_env_values = true)]
    polar_secret_old: Option<String>,
    /// Secret of any sender of Standard Webhooks, such as Svix: base64, after whsec_ or without it
    #[arg(long, env, hide_env_values = true)]
    standard_secret: Option<String>,
    /// Previous Standard Webhooks secret, also accepted while you replace it
    #[arg(long, env, hide_env_values = true)]
    standard_secret_old: Option<String>,
    /// Whether test purchases get real keys, true or false [default: false]
    #[arg(long, env)]
    accept_test_events: Option<String>,
    /// Days that a key of a subscription lives longer than it is paid for, 0 to 60 [default: 3]
    #[arg(long, env)]
    subscription_grace_days: Option<String>,
}

impl PlatformArguments {
    /// What was given for this setting.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match name {
            "STRIPE_SECRET" => self.stripe_secret.clone(),
            "STRIPE_SECRET_OLD" => self.stripe_secret_old.clone(),
            "SHOPIFY_SECRET" => self.shopify_secret.clone(),
            "SHOPIFY_SECRET_OLD" => self.shopify_secret_old.clone(),
            "LEMONSQUEEZY_SECRET" => self.lemonsqueezy_secret.clone(),
            "LEMONSQUEEZY_SECRET_OLD" => self.lemonsqueezy_secret_old.clone(),
            "PADDLE_SECRET" => self.paddle_secret.clone(),
            "PADDLE_SECRET_OLD" => self.paddle_secret_old.clone(),
            "PADDLE_TOLERANCE" => self.paddle_tolerance.clone(),
            "GUMROAD_TOKEN" => self.gumroad_token.clone(),
            "GUMROAD_TOKEN_OLD" => self.gumroad_token_old.clone(),
            "GUMROAD_SELLER_ID" => self.gumroad_seller_id.clone(),
            "WOOCOMMERCE_SECRET" => self.woocommerce_secret.clone(),
            "WOOCOMMERCE_SECRET_OLD" => self.woocommerce_secret_old.clone(),
            "POLAR_SECRET" => self.polar_secret.clone(),
            "POLAR_SECRET_OLD" => self.polar_secret_old.clone(),
            "STANDARD_SECRET" => self.standard_secret.clone(),
            "STANDARD_SECRET_OLD" => self.standard_secret_old.clone(),
            "ACCEPT_TEST_EVENTS" => self.accept_test_events.clone(),
            "SUBSCRIPTION_GRACE_DAYS" => self.subscription_grace_days.clone(),
            _ => None,
        }
    }
}
