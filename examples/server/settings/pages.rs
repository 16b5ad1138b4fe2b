//! The settings of the pages: the shop's name and colour, and whether there is a desk.

use delivery_core::explain;
use delivery_core::look::Look;

use super::given::Given;
use crate::Refusal;

pub(super) fn look(given: &Given) -> Result<Look, Refusal> {
    let desk = given.value("DESK", |text| match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be on or off"),
    })?;
    let look = given.value("SHOP_NAME", |name| Look::default().name(name))?;
    let mut look = look.colour(given.value("SHOP_COLOR", str::parse)?).desk(desk);
    if let Some(email) = given.read_as("SUPPORT_EMAIL", str::parse)? {
        look = look.support(email);
    }
    if let Some(with_logo) = given.read_as("SHOP_LOGO", |path| look.clone().logo(path))? {
        look = with_logo;
    }
    let replaced = given.read_as("PAGE_TEMPLATES", |folder| {
        look.clone().from_folder(folder).map_err(|error| format!("cannot be used: {}", explain(&error)))
    })?;
    Ok(replaced.unwrap_or(look))
}
