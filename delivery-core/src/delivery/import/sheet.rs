//! Reads a CSV file: detects whether commas or semicolons separate its cells, and finds the cells of a row by the names
//! of their columns.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use csv::{ByteRecord, ReaderBuilder, StringRecord, Terminator};

use super::ImportError;

/// The maximum number of bytes of the header row that are examined to detect the delimiter.
const LONGEST_HEADER: u64 = 64 * 1024;
/// The byte order mark that some programs write at the beginning of a UTF-8 file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The only cell of a row that is appended to the file. If this row is not read, a quotation mark in the file is not
/// closed, and the last cell contains the appended row.
const END: &[u8] = b"\0end\0";
/// What is appended to the file. The first line feed ends the last row of the file, so that the lines of all rows are
/// counted alike.
const APPENDED: &[u8] = b"\n\0end\0\n";
/// The error message for a file whose lines end with CR alone, which old programs for the Mac write.
const CR_ALONE: &str =
    "its lines end with CR alone; save the file with LF or CR LF at the end of each line, for example as CSV UTF-8";

/// The header row, the rest of the file, and the appended row.
type Whole<R> = Chain<Chain<Cursor<Vec<u8>>, BufReader<R>>, &'static [u8]>;

/// A CSV file whose header row was read.
pub(super) struct Sheet<R> {
    reader: csv::Reader<Whole<R>>,
    /// Whether the appended row was read.
    has_ended: bool,
    /// The names of the columns, in lower case.
    columns: Vec<String>,
    /// The indices of the columns that were passed to [`Sheet::sharing`]; empty if rows share no cells.
    shared: Vec<usize>,
    /// The previous row, after its shared cells were filled. Not used if rows share no cells.
    before: StringRecord,
}

/// A row of a sheet.
pub(super) struct SheetRow<'s> {
    /// The line of the file on which the row begins. The header row is on line 1.
    pub(super) line: u64,
    columns: &'s [String],
    /// `None` if the row is not UTF-8.
    cells: Option<StringRecord>,
}

impl<R: Read> Sheet<R> {
    /// Reads the header row. It is an error if one of the `required` columns is missing, or if the row ends with CR
    /// alone. An entry such as `a|b` requires at least one of the columns `a` and `b`.
    pub(super) fn open(file: R, required: &[&'static str]) -> Result<Self, ImportError> {
        let mut file = BufReader::new(file);
        let mut header = Vec::new();
        file.by_ref().take(LONGEST_HEADER).read_until(b'\n', &mut header)?;
        if header.starts_with(BYTE_ORDER_MARK) {
            header.drain(..BYTE_ORDER_MARK.len());
        }
        // Without this check, all rows of such a file would be cells of the header row.
        if header.trim_ascii_end().contains(&b'\r') {
            return Err(io::Error::new(io::ErrorKind::InvalidData, CR_ALONE).into());
        }
        let delimiter = delimiter(&String::from_utf8_lossy(&header));
        let file = Cursor::new(header).chain(file).chain(APPENDED);
        // Only a line feed ends a row, because the reader would count the lines wrongly if CR LF could end a row. The
        // carriage return stays in the last cell, and is removed with the spaces around the cell's text.
        let row_end = Terminator::Any(b'\n');
        let mut reader = ReaderBuilder::new().delimiter(delimiter).terminator(row_end).flexible(true).from_reader(file);
        let names = reader.byte_headers().map_err(io::Error::from)?;
        let columns: Vec<String> =
            names.iter().map(|name| String::from_utf8_lossy(name).trim().to_lowercase()).collect();
        let is_there =
            |names: &&&str| names.split('|').any(|name| columns.iter().any(|column| column.eq_ignore_ascii_case(name)));
        if let Some(missing) = required.iter().find(|names| !is_there(names)) {
            return Err(ImportError::MissingColumn(missing.replace('|', " or ")));
        }
        Ok(Self { reader, has_ended: false, columns, shared: Vec::new(), before: StringRecord::new() })
    }

    /// Makes adjacent rows share these columns if they have the same text in the first of them. If another one of these
    /// columns is empty in a row, the row gets the text of the previous row there.
    pub(super) fn sharing(self, columns: &[&str]) -> Self {
        let index = |name: &&str| self.columns.iter().position(|column| column.eq_ignore_ascii_case(name));
        let shared = columns.iter().filter_map(index).collect();
        Self { shared, ..self }
    }

    /// Returns the next row; `None` at the end of the file. Skips rows whose cells are all empty.
    pub(super) fn next_row(&mut self) -> Result<Option<SheetRow<'_>>, ImportError> {
        let mut record = ByteRecord::new();
        loop {
            if self.has_ended {
                return Ok(None);
            }
            if !self.reader.read_byte_record(&mut record).map_err(io::Error::from)? {
                let error = io::Error::new(io::ErrorKind::InvalidData, "a quotation mark is not closed");
                return Err(error.into());
            }
            self.has_ended = record.iter().eq([END]);
            if !self.has_ended && record.iter().any(|cell| !cell.trim_ascii().is_empty()) {
                break;
            }
        }
        // The reader is now at the line after the row. Count back to the line on which the row begins. The position
        // before the read would be wrong, because the reader skips empty lines before the row.
        let within = record.as_slice().iter().copied().filter(|byte| *byte == b'\n').count() as u64;
        let line = self.reader.position().line().saturating_sub(1 + within);
        let cells = StringRecord::from_byte_record(record).ok().map(|cells| self.filled(cells));
        Ok(Some(SheetRow { line, columns: &self.columns, cells }))
    }

    /// Fills the empty cells that a row shares with the previous row.
    fn filled(&mut self, cells: StringRecord) -> StringRecord {
        let Some((first, shared)) = self.shared.split_first() else { return cells };
        let is_same = cells.get(*first).is_some_and(|text| !text.is_empty() && self.before.get(*first) == Some(text));
        let filled = cells.iter().enumerate().map(|(index, cell)| {
            let is_shared = is_same && cell.trim().is_empty() && shared.contains(&index);
            if is_shared { self.before.get(index).unwrap_or_default() } else { cell }
        });
        let cells: StringRecord = filled.collect();
        self.before.clone_from(&cells);
        cells
    }
}

impl SheetRow<'_> {
    /// Checks that the row is UTF-8 and has as many cells as the header row. Otherwise, returns the reason.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match &self.cells {
            None => Err("the row must be UTF-8"),
            Some(cells) if cells.len() != self.columns.len() => {
                Err("the row must have as many cells as the header row")
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns the text in the column of this name, without the spaces around it; `None` if there is no such column, or
    /// if the cell is empty. If `column` has several names, such as `a|b`, returns the first text that is not empty.
    pub(super) fn cell(&self, column: &str) -> Option<&str> {
        let text = |name: &str| {
            let index = self.columns.iter().position(|column| column.eq_ignore_ascii_case(name))?;
            self.cells.as_ref()?.get(index).map(str::trim).filter(|cell| !cell.is_empty())
        };
        column.split('|').find_map(text)
    }
}

/// Returns the delimiter of a header row: a comma or a semicolon. The names of columns contain neither, so the more
/// frequent one is the delimiter.
fn delimiter(header: &str) -> u8 {
    if header.matches(';').count() > header.matches(',').count() { b';' } else { b',' }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUIRED: &[&str] = &["order_id", "product_id|product_ref"];

    /// Returns the line, the cell `order_id` and the cell `product_id` of each row.
    fn read(file: &[u8]) -> Vec<(u64, Option<String>, Option<String>)> {
        let mut sheet = Sheet::open(file, REQUIRED).unwrap();
        let mut rows = Vec::new();
        while let Some(row) = sheet.next_row().unwrap() {
            let cell = |column| row.cell(column).map(str::to_owned);
            rows.push((row.line, cell("order_id"), cell("product_id")));
        }
        rows
    }

    #[test]
    fn the_same_rows_are_read_however_the_file_is_written() {
        let expected = vec![(2, Some("A".to_owned()), Some("1".to_owned())), (3, Some("B".to_owned()), None)];
        for file in [
            "order_id,product_id\nA,1\nB,\n",
            "order_id,product_id\r\nA,1\r\nB,",
            "\u{feff}order_id,product_id\nA,1\nB,\n",
            "Order_ID ; PRODUCT_ID\nA;1\nB;\n",
            "\"order_id\",\"product_id\"\n\"A\",\" 1 \"\n\"B\",\"\"\n",
            "comment;product_id;order_id\nx,y;1;A\n;;B\n",
        ] {
            assert_eq!(read(file.as_bytes()), expected, "{file}");
        }
    }

    #[test]
    fn a_missing_column_is_named() {
        for (header, expected) in [
            ("", "the column order_id is missing"),
            ("product_id", "the column order_id is missing"),
            ("order_id;order", "the column product_id or product_ref is missing"),
        ] {
            let error = Sheet::open(header.as_bytes(), REQUIRED).err().unwrap();
            assert_eq!(error.to_string(), expected, "{header}");
        }
        assert!(Sheet::open(&b"order_id,product_ref"[..], REQUIRED).is_ok());
    }

    #[test]
    fn lines_that_end_with_cr_alone_are_an_error() {
        for (file, is_read) in [
            ("order_id,product_id\rA,1\rB,2\r", false),
            ("\u{feff}order_id,product_id\rA,\"1\n2\"\r", false),
            ("order_id,product_id\r", true),
            ("order_id,product_id\r\r\nA,1\r\r\n", true),
        ] {
            let error = Sheet::open(file.as_bytes(), REQUIRED).err().map(|error| crate::explain(&error));
            let is_named = error.as_ref().is_some_and(|error| error.contains("CR alone"));
            assert_eq!((error.is_none(), is_named), (is_read, !is_read), "{file:?}: {error:?}");
        }
    }

    #[test]
    fn a_row_that_cannot_be_read_says_why() {
        let file = b"order_id,product_id\nA,1\nB\nC,1,2\n\xff,1\n";
        let mut sheet = Sheet::open(&file[..], REQUIRED).unwrap();
        for expected in [Ok(()), Err("as many cells"), Err("as many cells"), Err("UTF-8")] {
            let row = sheet.next_row().unwrap().unwrap();
            match expected {
                Ok(()) => assert_eq!(row.check(), Ok(())),
                Err(part) => assert!(row.check().unwrap_err().contains(part), "line {}", row.line),
            }
        }
        assert!(sheet.next_row().unwrap().is_none());
    }

    #[test]
    fn a_quotation_mark_that_is_not_closed_is_an_error() {
        let end = |file: &str| {
            let mut sheet = Sheet::open(file.as_bytes(), REQUIRED).unwrap();
            while sheet.next_row()?.is_some() {}
            Ok::<_, ImportError>(())
        };
        for open in ["A,\"1\nB,1\nC,1\n", "A,5\" disk\nB,\"1\n", "A,\"1"] {
            assert!(end(&format!("order_id,product_id\n{open}")).is_err(), "{open}");
        }
        for closed in ["A,\"1\"\nB,1\n", "\"A\nB\",1\n", "A,5\"\nB,1\n", "A,5\" disk\nB,\"1\n2\"\n", "A,\"1\n2\""] {
            assert!(end(&format!("order_id,product_id\n{closed}")).is_ok(), "{closed}");
        }
    }

    #[test]
    fn rows_without_any_text_are_skipped_and_line_breaks_within_a_cell_are_counted() {
        let rows = read(b"order_id,product_id\n , \n\"A\nB\",1\n\n\nC,2\nD,3");
        assert_eq!(rows.iter().map(|(line, ..)| *line).collect::<Vec<_>>(), [3, 7, 8]);
    }

    #[test]
    fn rows_of_one_order_share_what_only_the_first_of_them_has() {
        let file = "order,e-mail,item\nA,ada@example.com,1\nA,,\nA,,3\nB,,4\n,,5\n";
        let mut sheet = Sheet::open(file.as_bytes(), &["order"]).unwrap().sharing(&["Order", "E-Mail", "absent"]);
        let ada = Some("ada@example.com");
        for expected in [(ada, Some("1")), (ada, None), (ada, Some("3")), (None, Some("4")), (None, Some("5"))] {
            let row = sheet.next_row().unwrap().unwrap();
            assert_eq!((row.cell("absent|e-mail"), row.cell("item")), expected);
        }
    }
}
