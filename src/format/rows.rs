//! Framing: where one row ends and the next begins, and whether its bytes can be a row at all.
//!
//! The input is read as bytes; each row is looked at by itself, so that a bad one costs nothing but itself. All of this
//! blocks: it runs on a thread of its own.

use super::compress::decoded;
use crate::record::{Reason, Rejection};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::{
    fmt,
    io::{self, BufRead, BufReader, Read},
};

/// What bounds the reading of one input.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A longer line or element is skipped.
    pub max_line_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_line_bytes: 64 << 20 }
    }
}

/// One row as it stands in its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Framed {
    /// Line number, or number of the element in a JSON array; from 1.
    pub position: u64,
    /// Its bytes, without the line end. Only a beginning, if it is too long.
    pub bytes: Bytes,
    /// Why it cannot be read, if it cannot.
    pub problem: Option<Rejection>,
}

/// Why an input cannot be read, or not to its end.
#[derive(Debug)]
pub enum RowsError {
    /// It is text in another encoding.
    Utf16,
    /// It cannot be opened or decompressed at all.
    Unreadable(io::Error),
    /// It broke off; the rows up to here are good.
    BrokeOff {
        /// The last whole row.
        after: u64,
        /// Why.
        why: String,
    },
}

impl fmt::Display for RowsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowsError::Utf16 => f.write_str("the text is UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"),
            RowsError::Unreadable(error) => write!(f, "cannot be read: {error}"),
            RowsError::BrokeOff { after, why } => {
                write!(f, "the input breaks off after row {after} ({why}): the rows before it were read")
            }
        }
    }
}

impl std::error::Error for RowsError {}

/// The rows of one input. An iterator; [`Rows::finish`] says how it ended.
pub struct Rows {
    input: BufReader<Box<dyn Read + Send>>,
    array: bool,
    ended: bool,
    position: u64,
    limits: Limits,
    broke: Option<String>,
}

const BUFFER: usize = 256 << 10;

/// How much of a row that is too long is kept, for people to know it by.
const BEGINNING: usize = 1 << 10;

impl Rows {
    /// Looks at the beginning of an input: compressed or not, an array or lines.
    ///
    /// # Errors
    /// If nothing of it can be read.
    pub fn open(reader: Box<dyn Read + Send>, limits: Limits) -> Result<Rows, RowsError> {
        let decoded = decoded(reader).map_err(RowsError::Unreadable)?;
        let mut input = BufReader::with_capacity(BUFFER, decoded);
        let start = input.fill_buf().map_err(RowsError::Unreadable)?;
        if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
            return Err(RowsError::Utf16);
        }
        let mark = if start.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let first = start.get(mark..).unwrap_or_default().iter().position(|byte| !byte.is_ascii_whitespace());
        let array = first.is_some_and(|first| start.get(mark + first) == Some(&b'['));
        input.consume(if array { mark + first.unwrap_or(0) + 1 } else { mark });
        Ok(Rows { input, array, ended: false, position: 0, limits, broke: None })
    }

    /// How the input ended; to be called when the iterator has.
    ///
    /// # Errors
    /// If it broke off.
    pub fn finish(self) -> Result<(), RowsError> {
        match self.broke {
            Some(why) => Err(RowsError::BrokeOff { after: self.position, why }),
            None => Ok(()),
        }
    }

    /// The next line that is not blank.
    fn next_line(&mut self) -> Option<Framed> {
        loop {
            let mut row = Row::default();
            let ending = self.take_line(&mut row);
            if ending == LineEnd::Nothing {
                return None;
            }
            if row.bytes.last() == Some(&b'\r') {
                row.bytes.pop();
            }
            let blank = row.bytes.iter().all(u8::is_ascii_whitespace);
            if ending == LineEnd::Broke {
                self.ended = true;
                // The position stays that of the last whole row.
                return (!blank).then(|| row.cut(self.position + 1));
            }
            self.position += 1;
            if !blank {
                return Some(row.framed(self.position, self.limits));
            }
        }
    }

    fn take_line(&mut self, row: &mut Row) -> LineEnd {
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.broke = Some(error.to_string());
                    return LineEnd::Broke;
                }
            };
            if buffer.is_empty() {
                return if row.length == 0 { LineEnd::Nothing } else { LineEnd::Whole };
            }
            let found = memchr::memchr(b'\n', buffer);
            let (piece, used) = match found {
                Some(at) => (&buffer[..at], at + 1),
                None => (buffer, buffer.len()),
            };
            row.push(piece, self.limits);
            self.input.consume(used);
            if found.is_some() {
                return LineEnd::Whole;
            }
        }
    }

    /// The next element of the array.
    fn next_element(&mut self) -> Option<Framed> {
        let mut row = Row::default();
        let mut scan = Scan::default();
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return self.array_broke(row, error.to_string()),
            };
            if buffer.is_empty() {
                return self.array_broke(row, "the JSON array is not closed".to_owned());
            }
            let end = scan.element_end(buffer);
            row.push(&buffer[..end.unwrap_or(buffer.len())], self.limits);
            let Some(end) = end else {
                let used = buffer.len();
                self.input.consume(used);
                continue;
            };
            let closes = buffer.get(end) == Some(&b']');
            self.input.consume(end + 1);
            if closes {
                self.ended = true;
                self.look_behind_array();
            }
            let empty = row.bytes.trim_ascii().is_empty();
            if empty && closes {
                // `[]`, or a comma before the bracket, which harms nothing.
                return None;
            }
            self.position += 1;
            row.bytes = row.bytes.trim_ascii().to_vec();
            return Some(row.framed(self.position, self.limits));
        }
    }

    fn array_broke(&mut self, mut row: Row, why: String) -> Option<Framed> {
        self.ended = true;
        self.broke = Some(why);
        row.bytes = row.bytes.trim_ascii().to_vec();
        (!row.bytes.is_empty()).then(|| row.cut(self.position + 1))
    }

    /// Only white space may follow the array.
    fn look_behind_array(&mut self) {
        loop {
            match self.input.fill_buf() {
                Ok([]) => return,
                Ok(rest) if rest.iter().all(u8::is_ascii_whitespace) => {
                    let used = rest.len();
                    self.input.consume(used);
                }
                Ok(_) => return self.broke = Some("something follows the JSON array".to_owned()),
                Err(error) => return self.broke = Some(error.to_string()),
            }
        }
    }
}

impl Iterator for Rows {
    type Item = Framed;

    fn next(&mut self) -> Option<Framed> {
        if self.ended {
            return None;
        }
        let next = if self.array { self.next_element() } else { self.next_line() };
        self.ended |= next.is_none();
        next
    }
}

#[derive(PartialEq, Eq)]
enum LineEnd {
    Whole,
    Nothing,
    Broke,
}

/// A row that is being gathered.
#[derive(Default)]
struct Row {
    bytes: Vec<u8>,
    length: u64,
}

impl Row {
    /// Adds a piece; of a row that is too long only the beginning is kept.
    fn push(&mut self, piece: &[u8], limits: Limits) {
        self.length += piece.len() as u64;
        if self.length <= limits.max_line_bytes {
            self.bytes.extend_from_slice(piece);
        } else {
            let room = BEGINNING.saturating_sub(self.bytes.len()).min(piece.len());
            self.bytes.extend_from_slice(&piece[..room]);
            self.bytes.truncate(BEGINNING);
            self.bytes.shrink_to_fit();
        }
    }

    fn framed(self, position: u64, limits: Limits) -> Framed {
        let problem = if self.length > limits.max_line_bytes {
            let detail = format!("{} bytes, more than {}", self.length, limits.max_line_bytes);
            Some(Rejection::new(Reason::LineTooLong, detail))
        } else {
            problem(&self.bytes)
        };
        Framed { position, bytes: self.bytes.into(), problem }
    }

    fn cut(self, position: u64) -> Framed {
        let problem = Some(Rejection::new(Reason::CutInput, "the input breaks off in this row"));
        Framed { position, bytes: self.bytes.into(), problem }
    }
}

/// Finds the end of an array's element without parsing it: the comma or bracket outside of strings and brackets.
#[derive(Default)]
struct Scan {
    depth: u64,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    fn element_end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b',' | b']' if self.depth == 0 => return Some(at),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        None
    }
}

/// Why these bytes are not a row, if they are none.
fn problem(bytes: &[u8]) -> Option<Rejection> {
    if let Some(at) = memchr::memchr(0, bytes) {
        let zeros = bytes.iter().skip(at).take_while(|byte| **byte == 0).count();
        return Some(Rejection::new(Reason::NulBlock, format!("{zeros} zero bytes from byte {at} on")));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Some(Rejection::new(Reason::InvalidUtf8, format!("at byte {}", error.valid_up_to()))),
    };
    if let Err(error) = serde_json::from_str::<&RawValue>(text) {
        let hint = match text.trim() {
            "{" | "[" => "; is the file pretty-printed? Each row must stand on one line",
            text if text.ends_with(',') => "; a row ends with a comma",
            _ => "",
        };
        return Some(Rejection::new(Reason::InvalidJson, format!("{error}{hint}")));
    }
    if !text.trim_start().starts_with('{') {
        return Some(Reason::NotAnObject.into());
    }
    let at = lone_surrogate(bytes)?;
    Some(Rejection::new(Reason::LoneSurrogate, format!("at byte {at}")))
}

/// Where half of a surrogate pair stands among the escapes of a JSON text. A parser that keeps strings as they stand
/// does not notice it.
fn lone_surrogate(json: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = json.get(from..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let at = from + found;
        from = match surrogate(json, at) {
            None => at + 2,
            Some(0xd800..=0xdbff) if matches!(surrogate(json, at + 6), Some(0xdc00..=0xdfff)) => at + 12,
            Some(_) => return Some(at),
        };
    }
    None
}

/// The value of an escape `\uXXXX` at `at`, if it is half of a surrogate pair.
fn surrogate(json: &[u8], at: usize) -> Option<u32> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let value = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..=0xdfff).contains(&value).then_some(value)
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
