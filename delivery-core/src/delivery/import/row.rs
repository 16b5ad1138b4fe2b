//! Parses the cells of one row into a sale.

use super::formats::ImportFormat;
use super::sale::{ProductName, Sale, aliases, needed, plausible, read};
use super::sheet::SheetRow;
use crate::clock::instant;
use crate::key::Keyring;
use crate::order::{OrderRef, Source};
use crate::product::ProductId;
use crate::terms::{MAX_USES, UseLimit};
use crate::text::Invalid;

/// A row whose cells were parsed.
pub(super) struct Row {
    /// The line of the file on which the row begins.
    pub(super) line: u64,
    /// The order's number as it is written in the file; empty if the row has none.
    pub(super) order: String,
    /// The sale, or the reason why the row is refused.
    pub(super) sale: Result<Sale, String>,
}

impl Row {
    /// Parses a row. If `from` is given, the row has the columns of this platform's export. Otherwise, it has the
    /// columns that [`Delivery::import`](crate::Delivery::import) lists. Returns `None` if the row is not about a sale.
    pub(super) fn of(row: &SheetRow<'_>, keyring: &Keyring, from: Option<ImportFormat>) -> Option<Self> {
        let (order, sale) = match from {
            Some(from) if from.is_total(row) => return None,
            Some(from) => (from.export().order, from.sale(row, keyring)),
            None => ("order_id", sale(row, keyring)),
        };
        Some(Self { line: row.line, order: row.cell(order).unwrap_or_default().to_owned(), sale })
    }
}

fn sale(row: &SheetRow<'_>, keyring: &Keyring) -> Result<Sale, String> {
    row.check()?;
    let id = needed(row, "order_id")?;
    let source = read(row, "source", str::parse)?.unwrap_or_else(|| Source::of("import"));
    let number = read(row, "product_id", |text| integer(text).and_then(ProductId::new))?.map(ProductName::Number);
    let reference = read(row, "product_ref", str::parse)?.map(|name| ProductName::References(vec![name]));
    let time = |text: &str| instant(text, 0).and_then(plausible);
    Ok(Sale {
        order: OrderRef { source, id },
        email: needed(row, "customer_email")?,
        product: number.or(reference),
        pieces: 1,
        created_at: read(row, "created_at", time)?,
        expires_at: read(row, "expires_at", time)?,
        limit: read(row, "max_uses", |text| integer(text).and_then(UseLimit::from_count))?,
        used: read(row, "used_count", used)?.unwrap_or_default(),
        is_refunded: read(row, "status", is_refunded)?.unwrap_or_default(),
        aliases: aliases(row, "key", keyring)?,
    })
}

fn integer(text: &str) -> Result<i64, Invalid> {
    text.parse().map_err(|_| Invalid::expected("must be an integer"))
}

fn used(text: &str) -> Result<u32, Invalid> {
    let used = text.parse::<u32>().ok().filter(|used| *used <= MAX_USES);
    used.ok_or(Invalid::expected("must be 0 to 2147483647 uses"))
}

fn is_refunded(status: &str) -> Result<bool, Invalid> {
    match status.to_ascii_lowercase().as_str() {
        "paid" => Ok(false),
        "refunded" => Ok(true),
        _ => Err(Invalid::expected("must be paid or refunded")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sheet::Sheet;
    use super::*;
    use crate::clock::timestamp;
    use crate::key::KeyId;

    const HEADER: &str = "order_id,customer_email,source,product_id,product_ref,created_at,expires_at,max_uses,\
        used_count,status,key";

    fn keyring() -> Keyring {
        "a signing secret for tests".parse().unwrap()
    }

    fn judged(row: &str) -> Result<Sale, String> {
        let file = format!("{HEADER}\n{row}\n");
        let mut sheet = Sheet::open(file.as_bytes(), &["order_id"]).unwrap();
        Row::of(&sheet.next_row().unwrap().unwrap(), &keyring(), None).unwrap().sale
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let sale = judged("A,ada@example.com,,,,,,,,,").unwrap();
        assert_eq!((sale.order.source.as_str(), sale.order.id.as_str()), ("import", "A"));
        assert_eq!((sale.email.as_str(), sale.product), ("ada@example.com", None));
        assert_eq!((sale.created_at, sale.expires_at, sale.limit), (None, None, None));
        assert_eq!((sale.used, sale.is_refunded, sale.aliases.len()), (0, false, 0));
    }

    #[test]
    fn every_column_is_read() {
        let row = "1001,ada@example.com,stripe,7,,2026-11-21,2027-11-21T10:00:00+02:00,-1,3,Refunded,LICENCE-0001";
        let sale = judged(row).unwrap();
        assert_eq!(sale.order.source.as_str(), "stripe");
        assert_eq!(sale.product, Some(ProductName::Number(ProductId::new(7).unwrap())));
        assert_eq!(sale.created_at.map(timestamp).as_deref(), Some("2026-11-21T00:00:00Z"));
        assert_eq!(sale.expires_at.map(timestamp).as_deref(), Some("2027-11-21T08:00:00Z"));
        assert_eq!((sale.limit, sale.used, sale.is_refunded), (Some(UseLimit::Unlimited), 3, true));
        assert_eq!(sale.aliases, keyring().aliases("LICENCE-0001"));
        let sale = judged("1001,ada@example.com,My Shop,,guide,,,,,paid,").unwrap();
        assert_eq!(sale.order.source.as_str(), "My Shop");
        assert_eq!(sale.product, Some(ProductName::References(vec!["guide".parse().unwrap()])));
    }

    #[test]
    fn a_cell_that_cannot_be_read_refuses_its_row() {
        let ours = keyring().text(KeyId::from_bytes([7; 16]), keyring().newest()).expose().to_owned();
        let forged = format!("{}{}", &ours[..ours.len() - 4], "0000");
        let (long, longest) = ("x".repeat(513), "x".repeat(512));
        for (row, expected) in [
            (",ada@example.com,,,,,,,,,".to_owned(), Some("order_id is missing")),
            ("A,,,,,,,,,,".to_owned(), Some("customer_email is missing")),
            ("A,ada,,,,,,,,,".to_owned(), Some("customer_email ")),
            (format!("A,ada@example.com,{},,,,,,,,", "x".repeat(65)), Some("source must be")),
            ("A,ada@example.com,,one,,,,,,,".to_owned(), Some("product_id must be an integer")),
            ("A,ada@example.com,,0,,,,,,,".to_owned(), Some("product_id must be an integer of 1 or more")),
            ("A,ada@example.com,,,,21.11.2026,,,,,".to_owned(), Some("created_at must be a date")),
            ("A,ada@example.com,,,,26-11-21,,,,,".to_owned(), Some("created_at must be 1970-01-01 or later")),
            ("A,ada@example.com,,,,,-4800-01-01,,,,".to_owned(), Some("expires_at must be 1970-01-01 or later")),
            ("A,ada@example.com,,,,,2026-02-30,,,,".to_owned(), Some("expires_at must be a date")),
            ("A,ada@example.com,,,,,,0,,,".to_owned(), Some("max_uses must be")),
            ("A,ada@example.com,,,,,,,-1,,".to_owned(), Some("used_count must be")),
            ("A,ada@example.com,,,,,,,2147483648,,".to_owned(), Some("used_count must be")),
            ("A,ada@example.com,,,,,,,,open,".to_owned(), Some("status must be paid or refunded")),
            ("A,ada@example.com,,,,,,,,,1234567".to_owned(), Some("key must be 8 to 512")),
            (format!("A,ada@example.com,,,,,,,,,{long}"), Some("key must be 8 to 512")),
            ("A,ada@example.com,,,,,,,,,12345\u{1}78".to_owned(), Some("key must be 8 to 512")),
            (format!("A,ada@example.com,,,,,,,,,{ours}"), Some("key has the form of a key")),
            (format!("A,ada@example.com,,,,,,,,,{forged}"), Some("key has the form of a key")),
            (format!("A,ada@example.com,,,,,,,,,{longest}"), None),
            ("A,ada@example.com,,,,,,,,,12345678".to_owned(), None),
        ] {
            let judged = judged(&row).map(drop);
            match expected {
                None => assert_eq!(judged, Ok(()), "{row}"),
                Some(part) => assert!(judged.clone().unwrap_err().starts_with(part), "{row}: {judged:?}"),
            }
        }
    }
}
