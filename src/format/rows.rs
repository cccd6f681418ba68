//! [`Rows`]: an input cut into rows, none of them lost without a word.

mod array;
mod check;
#[cfg(test)]
mod tests;

use super::compress::{Kind, decoded};
use crate::record::{Reason, Rejection};
use array::Array;
use bytes::Bytes;
use check::check;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Plain bytes read at a time, and how far into the input one looks to tell what it is.
const BUFFER_BYTES: usize = 128 << 10;
/// A line buffer that has grown beyond this is given back after the line.
const KEPT_BYTES: usize = 1 << 20;
/// How much of an overlong row is kept, to show it.
const PREFIX_BYTES: usize = 256;

/// What the plain bytes of an input are read from.
type Source = BufReader<Box<dyn Read + Send>>;

/// Bounds on what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest row that is kept, in bytes; a longer one is passed over without being held in memory.
    pub max_line_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_line_bytes: 64 << 20 }
    }
}

/// One row of an input, or what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Framed {
    /// From 1: the line's number, blank lines counted, or the element's number in a JSON array.
    pub position: u64,
    /// The row's own bytes, without line end; of an overlong row only the beginning.
    pub bytes: Bytes,
    /// Why the row cannot be used; `None` promises one JSON object in UTF-8, nested no deeper than serde_json parses.
    pub problem: Option<Rejection>,
}

/// Why an input cannot be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// Not a byte could be had.
    #[error("the input cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The input begins with the byte order mark of UTF-16.
    #[error("the input is UTF-16, and rows must be UTF-8: convert it, for example with `iconv -f UTF-16 -t UTF-8`")]
    Utf16,
    /// The whole input is one object.
    #[error(
        "the input is one JSON object, pretty-printed or keyed by id, and not one row per line: \
         write one object per line, for example with `jq -c .` or, if it is keyed by id, `jq -c '.[]'`"
    )]
    OneObject,
    /// Reading failed in the middle: a cut or damaged file, or a store that gave up.
    #[error("the {kind} breaks off after row {after}: {source}")]
    BrokenOff {
        /// `compressed input` or `input`.
        kind: &'static str,
        /// The position of the last row that was read whole; 0 if none was.
        after: u64,
        /// What the reader said.
        source: io::Error,
    },
    /// A JSON array that never closes.
    #[error("the JSON array is not closed after element {after}: the input seems to be cut")]
    ArrayNotClosed {
        /// The number of the last whole element.
        after: u64,
    },
    /// Something stands after a JSON array.
    #[error("more follows the end of the JSON array after element {after}: only one array can be read from an input")]
    AfterArray {
        /// The number of the last element.
        after: u64,
    },
}

/// Reads the rows of one input: JSON lines, or the elements of one JSON array, plain or compressed.
///
/// Blocking: to be driven from a blocking thread. It holds one row at a time, of at most
/// [`Limits::max_line_bytes`]. A byte that is not part of a blank line is part of a row or of a problem.
pub struct Rows {
    framing: Framing,
    /// A compressed input breaks off differently, in words.
    compressed: bool,
}

/// How rows are told apart.
enum Framing {
    Lines(Lines),
    Array(Array),
}

impl Rows {
    /// Looks at the beginning of `reader` and says how its rows will be read.
    ///
    /// Fails if nothing can be read, if the text is UTF-16, and if the whole input is a single object. A break
    /// in the middle is told by [`Rows::finish`].
    pub fn open(reader: Box<dyn Read + Send>, limits: Limits) -> Result<Rows, RowsError> {
        let (head, rest) = peek(reader, 4).map_err(RowsError::Unreadable)?;
        let compressed = Kind::of(&head) != Kind::Plain;
        let plain = decoded(rest).map_err(RowsError::Unreadable)?;
        let (head, rest) = peek(plain, BUFFER_BYTES as u64).map_err(RowsError::Unreadable)?;
        if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
            return Err(RowsError::Utf16);
        }
        let mut source = BufReader::with_capacity(BUFFER_BYTES, rest);
        let bom = if head.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let text = head.get(bom..).unwrap_or_default();
        io::copy(&mut source.by_ref().take(bom as u64), &mut io::sink()).map_err(RowsError::Unreadable)?;
        let framing = if text.trim_ascii_start().first() == Some(&b'[') {
            Framing::Array(Array::new(source, limits))
        } else if check::is_one_object(text, head.len() < BUFFER_BYTES) {
            return Err(RowsError::OneObject);
        } else {
            Framing::Lines(Lines {
                source,
                limits,
                line: Vec::new(),
                position: 0,
                whole: 0,
                broken: None,
                ended: false,
            })
        };
        Ok(Rows { framing, compressed })
    }

    /// Says whether the input was read to its end; to be asked once the iterator has ended.
    ///
    /// Fails if the input broke off; the rows before that place are good.
    pub fn finish(self) -> Result<(), RowsError> {
        let kind = if self.compressed { "compressed input" } else { "input" };
        let (broken, after) = match self.framing {
            Framing::Lines(lines) => (lines.broken, lines.whole),
            Framing::Array(array) => {
                let after = array.whole();
                (array.finish()?, after)
            }
        };
        broken.map_or(Ok(()), |source| Err(RowsError::BrokenOff { kind, after, source }))
    }
}

impl Iterator for Rows {
    type Item = Framed;

    fn next(&mut self) -> Option<Framed> {
        match &mut self.framing {
            Framing::Lines(lines) => lines.next(),
            Framing::Array(array) => array.next(),
        }
    }
}

/// The first `count` bytes, fewer if there are not so many, and a reader that begins with them again.
///
/// An error after the first byte is kept for the returned reader; one before it is returned.
fn peek(mut reader: Box<dyn Read + Send>, count: u64) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut head = Vec::new();
    let end = reader.by_ref().take(count).read_to_end(&mut head);
    let again = Cursor::new(head.clone());
    match end {
        Ok(_) => Ok((head, Box::new(again.chain(reader)))),
        Err(error) if head.is_empty() => Err(error),
        Err(error) => Ok((head, Box::new(again.chain(Failing(Some(error)))))),
    }
}

/// A reader that gives an error, and then its end.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// JSON lines: split at byte 0x0A and nowhere else.
struct Lines {
    source: Source,
    limits: Limits,
    line: Vec<u8>,
    position: u64,
    /// The last line that was read whole.
    whole: u64,
    broken: Option<io::Error>,
    ended: bool,
}

impl Lines {
    fn next(&mut self) -> Option<Framed> {
        while !self.ended {
            self.line.clear();
            self.line.shrink_to(KEPT_BYTES);
            let max = self.limits.max_line_bytes;
            let read = self.source.by_ref().take(max.saturating_add(1)).read_until(b'\n', &mut self.line);
            self.position += 1;
            if let Err(error) = read {
                self.break_off(error);
                let cut = !self.line.trim_ascii().is_empty();
                return cut.then(|| cut_row(self.position, &self.line));
            }
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            } else if self.line.len() as u64 > max {
                return Some(self.overlong());
            } else {
                self.ended = true;
            }
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            self.whole = self.position;
            if !self.line.trim_ascii().is_empty() {
                let problem = check(&self.line).err();
                return Some(Framed { position: self.position, bytes: Bytes::copy_from_slice(&self.line), problem });
            }
        }
        None
    }

    /// Passes over the rest of a line that is too long, without holding it.
    fn overlong(&mut self) -> Framed {
        let mut length = self.line.len() as u64;
        let exact = match skip_line(&mut self.source) {
            Ok(skipped) => {
                length += skipped;
                self.whole = self.position;
                true
            }
            Err(error) => {
                self.break_off(error);
                false
            }
        };
        too_long(self.position, &self.line, length, exact, self.limits)
    }

    fn break_off(&mut self, error: io::Error) {
        self.broken = Some(error);
        self.ended = true;
    }
}

/// Reads to the next line feed or the end; the number of bytes before it.
fn skip_line(source: &mut Source) -> io::Result<u64> {
    let mut length = 0;
    loop {
        let bytes = match source.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            return Ok(length);
        }
        let found = bytes.iter().position(|&byte| byte == b'\n');
        let count = found.unwrap_or(bytes.len());
        length += count as u64;
        source.consume(count + usize::from(found.is_some()));
        if found.is_some() {
            return Ok(length);
        }
    }
}

/// What is left of a row that the input breaks off in.
fn cut_row(position: u64, bytes: &[u8]) -> Framed {
    let problem = Rejection::new(Reason::CutInput, format!("{} bytes of the row were read", bytes.len()));
    Framed { position, bytes: Bytes::copy_from_slice(bytes), problem: Some(problem) }
}

/// What is left of a row longer than the limit: its beginning.
fn too_long(position: u64, bytes: &[u8], length: u64, exact: bool, limits: Limits) -> Framed {
    let least = if exact { "" } else { "at least " };
    let detail = format!("{least}{length} bytes, and max_line_bytes is {}", limits.max_line_bytes);
    let prefix = bytes.get(..PREFIX_BYTES).unwrap_or(bytes);
    let problem = Some(Rejection::new(Reason::LineTooLong, detail));
    Framed { position, bytes: Bytes::copy_from_slice(prefix), problem }
}
