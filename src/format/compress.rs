//! Compressed input, told by its first bytes and not by its name.

use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};

/// The first bytes of a gzip member (RFC 1952), of a zstd frame and of a skippable zstd frame (RFC 8878).
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

/// A frame that wants a larger window than 2^27 bytes is refused: it could claim all memory.
const WINDOW_LOG_MAX: u32 = 27;

/// Input is read from its source in pieces of this size.
const BUFFER: usize = 128 << 10;

/// The bytes inside `reader`: decompressed if they are gzip or zstd, with all members and frames as one stream.
///
/// A compressed stream that breaks off gives its good bytes first and then an error.
pub fn decoded(reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut source = BufReader::with_capacity(BUFFER, reader);
    // One `fill_buf` may give less than is asked for, but never nothing before the end.
    let start = source.fill_buf()?;
    let skippable = start.get(1..4) == Some(ZSTD_SKIPPABLE) && start.first().is_some_and(|byte| byte >> 4 == 5);
    if start.starts_with(GZIP) {
        Ok(Box::new(MultiGzDecoder::new(Padded { source, ended: false })))
    } else if start.starts_with(ZSTD) || skippable {
        let mut frames = zstd::stream::read::Decoder::with_buffer(source)?;
        frames.window_log_max(WINDOW_LOG_MAX)?;
        Ok(Box::new(frames))
    } else {
        Ok(Box::new(source))
    }
}

/// A source whose trailing zeros count as its end: tapes and some tools pad members with them.
///
/// Zeros are looked for only where a member may begin, which cannot be known here; but a buffer that holds nothing but
/// zeros up to the end of the source cannot be the rest of a member, which ends with its checksum and length.
struct Padded<R> {
    source: R,
    ended: bool,
}

impl<R: BufRead> Padded<R> {
    /// Whether only zeros are left.
    fn at_padding(&mut self) -> io::Result<bool> {
        let left = self.source.fill_buf()?;
        Ok(left.len() > 8 && left.len() < BUFFER && left.iter().all(|byte| *byte == 0))
    }
}

impl<R: BufRead> Read for Padded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(into.len());
        into.iter_mut().zip(available).for_each(|(to, from)| *to = *from);
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Padded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if !self.ended && self.at_padding()? {
            self.ended = true;
        }
        if self.ended { Ok(&[]) } else { self.source.fill_buf() }
    }

    fn consume(&mut self, count: usize) {
        self.source.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(text: &str) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(text.as_bytes()).expect("writes to memory");
        writer.finish().expect("writes to memory")
    }

    fn read(bytes: Vec<u8>) -> (String, Option<io::Error>) {
        let mut out = Vec::new();
        let ended = decoded(Box::new(io::Cursor::new(bytes))).and_then(|mut reader| reader.read_to_end(&mut out));
        (String::from_utf8(out).expect("text"), ended.err())
    }

    #[test]
    fn all_members_and_frames_are_one_stream() {
        let (text, error) = read([gzip("one "), gzip("two")].concat());
        assert_eq!((text.as_str(), error.is_none()), ("one two", true));
        let frame = |text: &str| zstd::bulk::compress(text.as_bytes(), 1).expect("compresses");
        let skippable = [&[0x5a, 0x2a, 0x4d, 0x18, 2, 0, 0, 0][..], b"xx"].concat();
        let (text, error) = read([skippable, frame("one "), frame("two")].concat());
        assert_eq!((text.as_str(), error.is_none()), ("one two", true));
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        assert_eq!(read(b"{}\n".to_vec()).0, "{}\n");
        assert_eq!(read(Vec::new()).0, "");
    }

    #[test]
    fn a_stream_that_breaks_off_gives_its_good_bytes_and_an_error() {
        let mut second = gzip(&"{\"a\":1}\n".repeat(1_000));
        second.truncate(second.len() / 2);
        let (text, error) = read([gzip("whole\n"), second].concat());
        assert!(text.starts_with("whole\n") && error.is_some());
    }

    #[test]
    fn padding_with_zeros_is_the_end_and_other_bytes_behind_a_member_are_not() {
        let (text, error) = read([gzip("one"), vec![0; 512]].concat());
        assert_eq!((text.as_str(), error.is_none()), ("one", true));
        let (text, error) = read([gzip("one"), b"and more".to_vec()].concat());
        assert_eq!((text.as_str(), error.is_some()), ("one", true));
    }
}
