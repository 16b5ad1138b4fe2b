//! The CSV exports of commerce platforms: which columns describe a sale, and how their texts are interpreted.
//!
//! Orders and products are identified in the same way as in the platform's events, so that an event that reports an
//! imported sale changes nothing. The platform's file in [`platform`](crate::platform) shows how events identify them.

use std::num::NonZeroU64;

use chrono::{DateTime, NaiveDateTime, Utc};

use super::sale::{ProductName, Sale, aliases, needed, plausible, read};
use super::sheet::SheetRow;
use crate::clock::instant;
use crate::key::Keyring;
use crate::order::{OrderRef, Source};
use crate::product::{ProductId, RefName};
use crate::text::Invalid;

const FURTHER: &str = "it is a further charge of a subscription, and its first order has the key";
const DISPUTED: &str = "the payment is disputed";
const NO_PIECES: &str = "must be a whole number of 1 or more";

crate::text::names! {
    /// A platform whose own export can be imported.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum ImportFormat, "must be gumroad, lemonsqueezy, shopify or stripe", {
        /// Gumroad's export of sales.
        Gumroad = "gumroad",
        /// Lemon Squeezy's export of orders.
        LemonSqueezy = "lemonsqueezy",
        /// Shopify's export of orders.
        Shopify = "shopify",
        /// Stripe's export of payments, with all columns.
        Stripe = "stripe",
    }
}

/// The columns of an export that an import reads. In a text such as `a|b`, the column `b` is used in a row where `a` is
/// empty.
pub(super) struct Export {
    /// The columns that the file must have.
    pub(super) required: &'static [&'static str],
    /// The columns that the rows of an order [share](super::sheet::Sheet::sharing); empty if each order has only one
    /// row.
    pub(super) shared: &'static [&'static str],
    /// The column with the number of the order.
    pub(super) order: &'static str,
    email: &'static str,
    created_at: &'static str,
    expires_at: Option<&'static str>,
    key: Option<&'static str>,
    /// The columns with the platform's names for the product. The second text is the prefix that events write before
    /// the name, such as `variant:`.
    names: &'static [(&'static str, &'static str)],
    /// The column with the product's number in this service, and the prefix before the number, such as `PROD-`.
    own: Option<(&'static str, &'static str)>,
    /// The column with the number of pieces; `None` if each row is about one piece.
    pieces: Option<&'static str>,
    /// Returns whether the whole order was refunded. The error is the reason why the row is refused.
    is_refunded: fn(&SheetRow<'_>) -> Result<bool, String>,
}

/// The columns are documented by
/// <https://github.com/antiwork/gumroad/blob/main/app/services/exports/purchase_export_service.rb>. `Purchase ID` is
/// `sale_id` in Gumroad's events, and `Product ID` is `short_product_id`. The key of a gift is for the person who
/// received the gift.
static GUMROAD: Export = Export {
    required: &["Purchase ID", "Purchase Email", "Product ID", "Fully Refunded?"],
    shared: &[],
    order: "Purchase ID",
    email: "Giftee Email|Purchase Email",
    created_at: "Purchase Time (UTC timezone)|Purchase Date",
    expires_at: Some("Subscription End Date"),
    key: Some("License Key"),
    names: &[("Product ID", "")],
    own: None,
    pieces: Some("Quantity"),
    is_refunded: |row| {
        let is = |column| row.cell(column).is_some_and(|text| text == "1" || text.eq_ignore_ascii_case("true"));
        if is("Recurring Charge?") {
            return Err(FURTHER.to_owned());
        }
        if is("Pre-order authorization?") {
            return Err("the pre-order is not paid yet".to_owned());
        }
        if is("Fully Refunded?") {
            return Ok(true);
        }
        if is("Disputed?") && !is("Dispute Won?") { Err(DISPUTED.to_owned()) } else { Ok(false) }
    },
};

/// Lemon Squeezy does not document the columns of its export. The columns are named like the attributes of an order in
/// its API, <https://docs.lemonsqueezy.com/api/orders>. Events identify an order by `id`, and a product by its numbers.
/// If the export lacks them, `identifier` and the product's name are used instead. No column is known to contain the
/// number of pieces.
static LEMON_SQUEEZY: Export = Export {
    required: &["id|order_id|identifier", "user_email", "variant_id|product_id|product_name", "status"],
    shared: &[],
    order: "id|order_id|identifier",
    email: "user_email",
    created_at: "created_at|date_utc",
    expires_at: None,
    key: None,
    names: &[("variant_id", "variant:"), ("product_id", "product:"), ("product_name", "")],
    own: None,
    pieces: None,
    is_refunded: |row| is_refunded(row, "status"),
};

/// The columns are documented at
/// <https://help.shopify.com/en/manual/fulfillment/managing-orders/exporting-orders>. An order has one row for each of
/// its lines, and only the first row contains the data about the whole order. The export identifies a product only by
/// its SKU, and does not say which line was refunded.
static SHOPIFY: Export = Export {
    required: &["Name", "Id", "Email", "Lineitem sku", "Financial Status"],
    shared: &["Name", "Id", "Email", "Financial Status", "Paid at", "Created at", "Cancelled at", "Canceled at"],
    order: "Id",
    email: "Email",
    created_at: "Paid at|Created at",
    expires_at: None,
    key: None,
    names: &[("Lineitem sku", "")],
    own: Some(("Lineitem sku", "PROD-")),
    pieces: Some("Lineitem quantity"),
    is_refunded: |row| {
        if row.cell("Cancelled at|Canceled at").is_some() { Ok(true) } else { is_refunded(row, "Financial Status") }
    },
};

/// The columns are documented at <https://support.stripe.com/questions/exporting-payment-data>. Stripe's events about a
/// checkout use the id of the checkout session as the order's number. A payment without a checkout session has no such
/// event. The export contains no ids of prices and products, and no number of pieces, so a sale is one piece, as in
/// events.
static STRIPE: Export = Export {
    required: &["Checkout Session ID", "Customer Email", "Payment Link ID|product_id (metadata)", "Status"],
    shared: &[],
    order: "Checkout Session ID|PaymentIntent ID|id",
    email: "Customer Email",
    created_at: "Created date (UTC)|Created (UTC)",
    expires_at: None,
    key: None,
    names: &[("Payment Link ID", "")],
    own: Some(("product_id (metadata)", "")),
    pieces: None,
    is_refunded: |row| {
        if row.cell("Invoice ID").is_some() && row.cell("Checkout Session ID").is_none() {
            return Err(FURTHER.to_owned());
        }
        let dispute = row.cell("Dispute Status").unwrap_or_default().to_ascii_lowercase();
        if dispute == "lost" {
            return Ok(true);
        }
        if !matches!(dispute.as_str(), "" | "won") && !dispute.starts_with("warning") {
            return Err(DISPUTED.to_owned());
        }
        let amount = row.cell("Amount").filter(|amount| amount.bytes().any(|byte| matches!(byte, b'1'..=b'9')));
        let is_all = amount.is_some() && row.cell("Amount Refunded") == amount;
        Ok(is_refunded(row, "Status")? || is_all)
    },
};

impl ImportFormat {
    pub(super) fn export(self) -> &'static Export {
        match self {
            Self::Gumroad => &GUMROAD,
            Self::LemonSqueezy => &LEMON_SQUEEZY,
            Self::Shopify => &SHOPIFY,
            Self::Stripe => &STRIPE,
        }
    }

    /// Returns whether a row contains totals of the whole file instead of a sale. Gumroad's export ends with a row of
    /// totals.
    pub(super) fn is_total(self, row: &SheetRow<'_>) -> bool {
        self == Self::Gumroad && row.cell("Purchase ID") == Some("Totals")
    }

    pub(super) fn sale(self, row: &SheetRow<'_>, keyring: &Keyring) -> Result<Sale, String> {
        row.check()?;
        let Export { order, email, created_at, expires_at, key, .. } = *self.export();
        let is_refunded = (self.export().is_refunded)(row)?;
        Ok(Sale {
            order: OrderRef { source: Source::of(self.as_str()), id: needed(row, order)? },
            email: needed(row, email)?,
            // A refund concerns all products of the order, so no product is set.
            product: if is_refunded { None } else { Some(self.export().product(row)?) },
            pieces: if is_refunded { 1 } else { self.export().pieces(row)? },
            created_at: read(row, created_at, time)?,
            expires_at: expires_at.map(|column| read(row, column, time)).transpose()?.flatten(),
            limit: None,
            used: 0,
            is_refunded,
            aliases: key.map(|column| aliases(row, column, keyring)).transpose()?.unwrap_or_default(),
        })
    }
}

impl Export {
    fn product(&self, row: &SheetRow<'_>) -> Result<ProductName, String> {
        let number = self.own.and_then(|(column, before)| row.cell(column)?.strip_prefix(before)?.parse().ok());
        if let Some(number) = number.and_then(|number| ProductId::new(number).ok()) {
            return Ok(ProductName::Number(number));
        }
        let name = |(column, before): &(&str, &str)| -> Option<RefName> {
            row.cell(column).and_then(|text| format!("{before}{text}").parse().ok())
        };
        let names: Vec<RefName> = self.names.iter().filter_map(name).collect();
        if names.is_empty() { Err("the row names no product".to_owned()) } else { Ok(ProductName::References(names)) }
    }

    fn pieces(&self, row: &SheetRow<'_>) -> Result<u64, String> {
        let Some(column) = self.pieces else { return Ok(1) };
        let number = |text: &str| text.parse::<NonZeroU64>().map_err(|_| Invalid::expected(NO_PIECES));
        Ok(read(row, column, number)?.map_or(1, NonZeroU64::get))
    }
}

/// Returns whether the status of an order or payment in this column is a full refund. The error is the reason why the
/// row is refused, for example because the order is not paid.
fn is_refunded(row: &SheetRow<'_>, column: &str) -> Result<bool, String> {
    let status = row.cell(column).unwrap_or_default().to_ascii_lowercase().replace(' ', "_");
    match status.as_str() {
        "paid" | "succeeded" | "partially_refunded" | "partial_refund" => Ok(false),
        "refunded" => Ok(true),
        "" => Err(format!("{column} is missing")),
        _ => Err(format!("it is not paid: {column} is {status}")),
    }
}

/// Parses a time in any of the forms that the exports use. A time without an offset is in UTC.
fn time(text: &str) -> Result<DateTime<Utc>, Invalid> {
    let with_offset = DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S %z").map(|at| at.to_utc());
    let in_utc = |format| NaiveDateTime::parse_from_str(text, format).map(|at| at.and_utc());
    let at = with_offset
        .or_else(|_| in_utc("%Y-%m-%d %H:%M:%S UTC"))
        .or_else(|_| in_utc("%Y-%m-%d %H:%M:%S"))
        .or_else(|_| in_utc("%Y-%m-%d %H:%M"))
        .or_else(|_| instant(text, 0))?;
    plausible(at)
}

#[cfg(test)]
mod tests {
    use super::super::row::Row;
    use super::super::sheet::Sheet;
    use super::*;
    use crate::clock::timestamp;

    const GUMROAD: &str = include_str!("fixtures/gumroad.csv");
    const LEMON_SQUEEZY: &str = include_str!("fixtures/lemonsqueezy.csv");
    const SHOPIFY: &str = include_str!("fixtures/shopify.csv");
    const STRIPE: &str = include_str!("fixtures/stripe.csv");

    fn keyring() -> Keyring {
        "a signing secret for tests".parse().unwrap()
    }

    /// Reads an export, and describes each row in one text.
    fn told(from: ImportFormat, file: &str) -> Vec<String> {
        let export = from.export();
        let mut sheet = Sheet::open(file.as_bytes(), export.required).unwrap().sharing(export.shared);
        let mut rows = Vec::new();
        while let Some(row) = sheet.next_row().unwrap() {
            let Some(Row { order, sale, .. }) = Row::of(&row, &keyring(), Some(from)) else { continue };
            rows.push(match sale {
                Ok(sale) => sold(&sale),
                Err(reason) => format!("{order}: {reason}"),
            });
        }
        rows
    }

    fn sold(sale: &Sale) -> String {
        let product = match &sale.product {
            None => "refunded".to_owned(),
            Some(ProductName::Number(number)) => number.to_string(),
            Some(ProductName::References(names)) => names.iter().map(RefName::as_str).collect::<Vec<_>>().join(" or "),
        };
        assert_eq!(sale.is_refunded, sale.product.is_none());
        let pieces = if sale.pieces == 1 { String::new() } else { format!("{} x ", sale.pieces) };
        let [from, until] = [sale.created_at, sale.expires_at].map(|at| at.map(timestamp).unwrap_or_default());
        let key =
            if sale.aliases == keyring().aliases("6F0E4C97-B72A4E69-A11BF6C4-AF6517E7") { " with a key" } else { "" };
        format!("{} {} {} {pieces}{product} {from} {until}{key}", sale.order.source, sale.order.id, sale.email)
    }

    #[test]
    fn an_export_of_gumroad_is_read() {
        assert_eq!(
            told(ImportFormat::Gumroad, GUMROAD),
            [
                "gumroad Kk1lJx0zVg8bQ3mA5nP7rw== ada@example.com guide 2026-11-01T10:04:00Z  with a key",
                "gumroad Zc2mLy1aWh9cR4nB6oQ8sx== bob@example.com refunded 2026-11-02T08:30:15Z ",
                "gumroad Xd3nMz2bXi0dS5oC7pR9ty== cy@example.com guide 2026-11-03T12:00:00Z ",
                "gumroad Ye4oNa3cYj1eT6pD8qS0uz== dan@example.com club 2026-09-04T09:15:00Z 2026-11-04T00:00:00Z",
                "Wf5pOb4dZk2fU7qE9rT1va==: it is a further charge of a subscription, and its first order has the key",
                "Vg6qPc5eAl3gV8rF0sU2wb==: the payment is disputed",
                "Uh7rQd6fBm4hW9sG1tV3xc==: the pre-order is not paid yet",
                "gumroad Ti8sRe7gCn5iX0tH2uW4yd== gil@example.com 3 x guide 2026-11-08T20:45:59Z ",
            ]
        );
    }

    #[test]
    fn an_export_of_lemon_squeezy_is_read() {
        assert_eq!(
            told(ImportFormat::LemonSqueezy, LEMON_SQUEEZY),
            [
                "lemonsqueezy 104e18a2-d755-4d4b-80c4-a6c1dcbe1c10 ada@example.com Field Guide 2026-11-01T10:04:00Z ",
                "lemonsqueezy 2f0b7c1e-9a3d-4f61-b0b4-0d6a0f2f7c55 bob@example.com refunded 2026-11-02T08:30:15Z ",
                "5a9d3e60-7c1f-4b0a-8d52-3c1f9e6b2a77: it is not paid: status is pending",
                "lemonsqueezy 8c2f6b94-1e7d-4a35-9f08-6b0d4c3e1a99 dan@example.com Field Guide 2026-11-04T00:00:00Z ",
            ]
        );
        // An export that contains the numbers that the platform's events use.
        let file = "id,variant_id,product_id,user_email,status\n1,90210,501,ada@example.com,paid\n";
        let expected = "lemonsqueezy 1 ada@example.com variant:90210 or product:501  ";
        assert_eq!(told(ImportFormat::LemonSqueezy, file), [expected]);
    }

    #[test]
    fn an_export_of_shopify_is_read() {
        assert_eq!(
            told(ImportFormat::Shopify, SHOPIFY),
            [
                "shopify 820982911946154508 ada@example.com BOOK-1 2026-11-01T09:04:00Z ",
                "shopify 820982911946154508 ada@example.com 2 x 7 2026-11-01T09:04:00Z ",
                "820982911946154508: the row names no product",
                "shopify 820982911946154509 bob@example.com refunded 2026-11-02T08:30:15Z ",
                "shopify 820982911946154509 bob@example.com refunded 2026-11-02T08:30:15Z ",
                "shopify 820982911946154510 cy@example.com BOOK-1 2026-11-03T12:00:00Z ",
                "820982911946154511: it is not paid: Financial Status is pending",
                "shopify 820982911946154512 eve@example.com refunded 2026-11-05T07:00:00Z ",
            ]
        );
        let refused = "1: Lineitem quantity must be a whole number of 1 or more";
        for (quantity, expected) in [
            ("", "shopify 1 ada@example.com BOOK-1  "),
            ("12", "shopify 1 ada@example.com 12 x BOOK-1  "),
            ("0", refused),
            ("-1", refused),
            ("1.5", refused),
            ("two", refused),
        ] {
            let header = "Name,Id,Email,Lineitem sku,Financial Status,Lineitem quantity";
            let file = format!("{header}\n#1,1,ada@example.com,BOOK-1,paid,{quantity}\n");
            assert_eq!(told(ImportFormat::Shopify, &file), [expected]);
        }
    }

    #[test]
    fn an_export_of_stripe_is_read() {
        assert_eq!(
            told(ImportFormat::Stripe, STRIPE),
            [
                "stripe cs_live_a1 ada@example.com plink_1Guide 2026-11-01T10:04:00Z ",
                "stripe cs_live_a2 bob@example.com refunded 2026-11-02T08:30:15Z ",
                "stripe cs_live_a3 cy@example.com plink_1Guide 2026-11-03T12:00:00Z ",
                "stripe pi_3Q4 dan@example.com 7 2026-11-04T09:15:00Z ",
                "ch_3Q5: it is not paid: Status is failed",
                "cs_live_a6: the payment is disputed",
                "stripe cs_live_a7 gil@example.com refunded 2026-11-07T18:20:00Z ",
                "pi_3Q8: it is a further charge of a subscription, and its first order has the key",
                "stripe cs_live_a9 ivy@example.com plink_1Guide 2026-11-09T06:00:00Z ",
            ]
        );
    }

    #[test]
    fn a_missing_column_has_the_name_that_the_export_uses() {
        for (from, header, expected) in [
            (ImportFormat::Gumroad, "Purchase ID,Purchase Email", "the column Product ID is missing"),
            (ImportFormat::LemonSqueezy, "order_number", "the column id or order_id or identifier is missing"),
            (ImportFormat::Shopify, "Name,Email", "the column Id is missing"),
            (ImportFormat::Stripe, "id,Customer Email", "the column Checkout Session ID is missing"),
        ] {
            let error = Sheet::open(header.as_bytes(), from.export().required).err().unwrap();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn times_are_read_as_exports_write_them() {
        for (text, expected) in [
            ("2026-11-01 10:04:00 UTC", Some("2026-11-01T10:04:00Z")),
            ("2026-11-01 10:04:00 +0100", Some("2026-11-01T09:04:00Z")),
            ("2026-11-01 10:04:00", Some("2026-11-01T10:04:00Z")),
            ("2026-11-01 10:04", Some("2026-11-01T10:04:00Z")),
            ("2026-11-01T10:04:00.123456Z", Some("2026-11-01T10:04:00Z")),
            ("2026-11-01", Some("2026-11-01T00:00:00Z")),
            ("2026-02-30 10:04", None),
            ("Nov 1, 2026", None),
        ] {
            assert_eq!(time(text).ok().map(timestamp).as_deref(), expected, "{text}");
        }
    }
}
