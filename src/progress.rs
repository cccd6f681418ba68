//! [`Progress`]: how much of the input has been read, by bytes.

use std::{
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// How far readers buffer ahead of the rows they give.
const READ_AHEAD: u64 = 192 << 10;

/// Bytes of input as stored, expected and read: what a share done can be estimated from before all rows are known.
#[derive(Debug, Default)]
pub struct Progress {
    expected: AtomicU64,
    read: AtomicU64,
    ended: AtomicBool,
}

impl Progress {
    /// All that was to be read has been read.
    pub fn ends(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether all that was to be read has been read.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// So many bytes are to be read in all.
    pub fn expects(&self, bytes: u64) {
        self.expected.store(bytes, Ordering::Relaxed);
    }

    /// A reader that books what passes through it.
    pub fn counted(self: &Arc<Self>, reader: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        Box::new(Counted { reader, progress: Arc::clone(self) })
    }

    /// The share of the input that has been read, from 0 to 1; `None` until it can be told.
    pub fn share(&self) -> Option<f64> {
        let expected = self.expected.load(Ordering::Relaxed);
        let read = self.read.load(Ordering::Relaxed);
        if self.ended() {
            return Some(1.0);
        }
        // What is read ahead is not dealt with yet; in a small input it is all of it.
        let dealt_with = read.checked_sub(READ_AHEAD).filter(|bytes| *bytes > 0)?;
        (expected > 0).then(|| (dealt_with as f64 / expected as f64).min(1.0))
    }
}

struct Counted {
    reader: Box<dyn Read + Send>,
    progress: Arc<Progress>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.reader.read(into)?;
        self.progress.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
