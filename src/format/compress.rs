//! Compressed inputs, known by their first bytes and never by their name.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// The largest zstd window that is accepted, as a power of two in bytes: 128 MiB, as `zstd --long` writes it.
const WINDOW_LOG_MAX: u32 = 27;
/// Compressed bytes read at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// How bytes are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Not at all.
    Plain,
    /// gzip, RFC 1952.
    Gzip,
    /// zstd, RFC 8878.
    Zstd,
}

impl Kind {
    /// The kind of an input that begins with these (four) bytes.
    pub fn of(magic: &[u8]) -> Kind {
        match magic {
            [0x1f, 0x8b, ..] => Kind::Gzip,
            // A frame, or one of the skippable frames that parallel compressors put in front.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Kind::Zstd,
            _ => Kind::Plain,
        }
    }
}

/// The plain bytes of `reader`, which may be gzip, zstd or plain already.
///
/// All gzip members and all zstd frames are read, as one stream. Zero bytes after the last gzip member are padding
/// and are ignored; anything else there is an error. A member or frame that is cut or damaged gives its good bytes
/// first and then the error. Fails if the first bytes cannot be read.
pub fn decoded(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut magic)?;
    let kind = Kind::of(&magic);
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(magic).chain(reader));
    Ok(match kind {
        Kind::Gzip => Box::new(Members { current: Some(GzDecoder::new(whole)) }),
        Kind::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(whole)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        Kind::Plain => Box::new(whole),
    })
}

/// All members of a gzip stream, one after the other.
struct Members<R: BufRead> {
    /// The member being read; `None` after the last.
    current: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.current {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            if let Some(ended) = self.current.take() {
                self.current = next_member(ended.into_inner())?;
            }
        }
        Ok(0)
    }
}

/// The member after one that has ended, if there is one.
fn next_member<R: BufRead>(mut rest: R) -> io::Result<Option<GzDecoder<R>>> {
    if rest.fill_buf()?.first() == Some(&0x1f) {
        return Ok(Some(GzDecoder::new(rest)));
    }
    loop {
        let bytes = rest.fill_buf()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.iter().any(|&byte| byte != 0) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "bytes that are not gzip follow the last gzip member",
            ));
        }
        let count = bytes.len();
        rest.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("memory takes every byte");
        encoder.finish().expect("memory takes every byte")
    }

    fn zst(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).expect("memory takes every byte")
    }

    /// The bytes that come out, and whether the end was clean.
    fn read(bytes: Vec<u8>) -> (Vec<u8>, io::Result<()>) {
        let mut out = Vec::new();
        let end = decoded(Box::new(Cursor::new(bytes))).and_then(|mut reader| reader.read_to_end(&mut out));
        (out, end.map(drop))
    }

    #[test]
    fn plain_gzip_and_zstd_are_told_apart_by_content() {
        for bytes in [b"row\n".to_vec(), gzip(b"row\n"), zst(b"row\n")] {
            let (out, end) = read(bytes);
            assert_eq!(out, b"row\n");
            assert!(end.is_ok());
        }
        assert!(read(Vec::new()).0.is_empty());
    }

    #[test]
    fn all_members_and_frames_are_read() {
        for pack in [gzip, zst] {
            let (out, end) = read([pack(b"one "), pack(b""), pack(b"two")].concat());
            assert_eq!(out, b"one two");
            assert!(end.is_ok());
        }
    }

    #[test]
    fn zero_padding_after_gzip_is_ignored_and_other_bytes_are_not() {
        let padded = [gzip(b"one"), vec![0; 100_000]].concat();
        assert!(read(padded.clone()).1.is_ok());
        for tail in [vec![1], b"{}".to_vec(), vec![0x1f, 7]] {
            assert!(read([gzip(b"one"), tail].concat()).1.is_err());
        }
        assert!(read([padded, vec![1]].concat()).1.is_err());
    }

    #[test]
    fn a_cut_member_gives_its_good_bytes_and_then_an_error() {
        for pack in [gzip, zst] {
            let mut bytes = [pack(b"one "), pack(&[b'x'; 10_000])].concat();
            bytes.truncate(bytes.len() - 3);
            let (out, end) = read(bytes);
            assert!(out.starts_with(b"one "));
            assert!(end.is_err());
        }
    }
}
