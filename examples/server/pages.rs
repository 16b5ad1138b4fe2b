//! The settings of the pages: the shop's name and colour, and whether there is a desk.

use clap::Args;
use delivery_core::explain;
use delivery_core::look::Look;

use super::Refusal;
use super::refusal::{read, refusal};

#[derive(Args)]
#[command(next_help_heading = "Pages")]
pub(crate) struct PageArguments {
    /// Whether sellers have a desk at /desk: on or off
    #[arg(long, env, default_value = "on")]
    desk: String,
    /// The shop's name, on the pages of sellers and buyers
    #[arg(long, env, default_value = "Digital Delivery")]
    shop_name: String,
    /// The colour of buttons and links, such as #1a56db
    #[arg(long, env, default_value = "#1a56db")]
    shop_color: String,
    /// Address that buyers can write to, shown on pages
    #[arg(long, env)]
    support_email: Option<String>,
    /// Folder of templates of pages that take the places of the built-in ones
    #[arg(long, env)]
    page_templates: Option<String>,
}

impl PageArguments {
    /// Checks every setting; a refusal names the setting and what it takes.
    pub(crate) fn check(&self) -> Result<Look, Refusal> {
        let desk = read("DESK", &self.desk, |text| match text {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err("must be on or off"),
        })?;
        let look = read("SHOP_NAME", &self.shop_name, |name| Look::default().name(name))?;
        let mut look = look.colour(read("SHOP_COLOR", &self.shop_color, str::parse)?).desk(desk);
        if let Some(email) = self.support_email.as_deref().filter(|email| !email.is_empty()) {
            look = look.support(read("SUPPORT_EMAIL", email, str::parse)?);
        }
        if let Some(folder) = self.page_templates.as_deref().filter(|folder| !folder.is_empty()) {
            let replaced = look.from_folder(folder);
            look =
                replaced.map_err(|error| refusal("PAGE_TEMPLATES", format!("cannot be used: {}", explain(&error))))?;
        }
        Ok(look)
    }
}
