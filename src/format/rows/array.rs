//! [`Array`]: the elements of one JSON array, one at a time.

use super::{Framed, Limits, RowsError, Source, check, cut_row, too_long};
use bytes::Bytes;
use std::io::{self, BufRead};

/// The rows of an input that is one JSON array.
pub struct Array {
    source: Source,
    scan: Scan,
    broken: Option<io::Error>,
}

/// Frames the elements of an array by counting brackets; what each holds is checked afterwards.
///
/// An element ends at a comma or the closing bracket outside strings and nested brackets, so a missing comma makes
/// one bad row of two good ones, and no row is lost without a word.
struct Scan {
    limits: Limits,
    element: Vec<u8>,
    /// The element's length, of which `element` holds no more than the limit.
    length: u64,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The number of the last element that was read whole.
    whole: u64,
    place: Place,
    /// Something other than blanks stands after the array.
    more: bool,
}

/// Where in the input the reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Inside,
    After,
    /// At the end of the input; true if the array was closed.
    End(bool),
}

impl Array {
    /// A reader at the beginning of an input whose first byte that is not blank is `[`.
    pub fn new(source: Source, limits: Limits) -> Self {
        Array { source, scan: Scan::new(limits), broken: None }
    }

    /// The number of the last element that was read whole.
    pub fn whole(&self) -> u64 {
        self.scan.whole
    }

    /// What broke the reading off, if something did; fails if the array is not closed or is not all there is.
    pub fn finish(self) -> Result<Option<io::Error>, RowsError> {
        let after = self.scan.whole;
        match self.scan.place {
            _ if self.broken.is_some() => Ok(self.broken),
            _ if self.scan.more => Err(RowsError::AfterArray { after }),
            Place::End(false) => Err(RowsError::ArrayNotClosed { after }),
            _ => Ok(None),
        }
    }

    /// The next element, or what is wrong with it.
    pub fn next(&mut self) -> Option<Framed> {
        while !matches!(self.scan.place, Place::End(_)) {
            let bytes = match self.source.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.broken = Some(error);
                    return self.scan.cut();
                }
            };
            if bytes.is_empty() {
                return self.scan.cut();
            }
            let (used, ended) = self.scan.read(bytes);
            self.source.consume(used);
            if let Some(by) = ended
                && let Some(framed) = self.scan.take(by)
            {
                return Some(framed);
            }
        }
        None
    }
}

impl Scan {
    fn new(limits: Limits) -> Self {
        Scan {
            limits,
            element: Vec::new(),
            length: 0,
            depth: 0,
            in_string: false,
            escaped: false,
            whole: 0,
            place: Place::Before,
            more: false,
        }
    }

    /// Reads on to the end of an element: how many bytes that took, and the byte that ended it.
    fn read(&mut self, bytes: &[u8]) -> (usize, Option<u8>) {
        let mut from = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            match self.place {
                Place::Before => {
                    if byte == b'[' {
                        self.place = Place::Inside;
                    }
                    from = at + 1;
                    continue;
                }
                Place::After | Place::End(_) => {
                    if !byte.is_ascii_whitespace() {
                        self.more = true;
                        self.place = Place::End(true);
                    }
                    from = at + 1;
                    continue;
                }
                Place::Inside => {}
            }
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = self.in_string,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b',' | b']' if self.depth == 0 => {
                    self.keep(bytes.get(from..at).unwrap_or_default());
                    return (at + 1, Some(byte));
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.keep(bytes.get(from..).unwrap_or_default());
        (bytes.len(), None)
    }

    /// Keeps these bytes of the element, as far as the limit allows; blanks before it are not part of it.
    fn keep(&mut self, bytes: &[u8]) {
        let bytes = if self.element.is_empty() { bytes.trim_ascii_start() } else { bytes };
        self.length += bytes.len() as u64;
        let room = self.limits.max_line_bytes.saturating_sub(self.element.len() as u64);
        let count = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        self.element.extend_from_slice(bytes.get(..count).unwrap_or(bytes));
    }

    /// The element that was just ended by `by`.
    fn take(&mut self, by: u8) -> Option<Framed> {
        if by == b']' {
            self.place = Place::After;
        }
        let element = std::mem::take(&mut self.element);
        let length = std::mem::take(&mut self.length);
        let bytes = element.trim_ascii_end();
        // `[]`, or a comma before the closing bracket: no element is missing.
        if bytes.is_empty() && by == b']' {
            return None;
        }
        self.whole += 1;
        if length > self.limits.max_line_bytes {
            return Some(too_long(self.whole, bytes, length, true, self.limits));
        }
        let problem = check(bytes).err();
        Some(Framed { position: self.whole, bytes: Bytes::copy_from_slice(bytes), problem })
    }

    /// The end of the input: what is left of an element that has no end.
    fn cut(&mut self) -> Option<Framed> {
        self.place = Place::End(self.place == Place::After);
        let element = std::mem::take(&mut self.element);
        if element.trim_ascii().is_empty() {
            return None;
        }
        let position = self.whole + 1;
        if self.length > self.limits.max_line_bytes {
            return Some(too_long(position, &element, self.length, false, self.limits));
        }
        Some(cut_row(position, &element))
    }
}
