//! [`Ahead`]: the rows of one file, decoded one batch ahead of whoever takes them.

use crate::{
    error::{Error, ErrorKind},
    format::{Framed, Limits, Rows, RowsError},
};
use std::{collections::VecDeque, io::Read, sync::Arc};
use tokio::task::{JoinHandle, spawn_blocking};

/// The rows of one file. No more than two batches of them wait here.
///
/// Each batch is a blocking task that ends by itself. A thread that decoded the whole file and waited for its rows to
/// be taken would keep one thread busy with waiting, and would hold a paused clock still for good.
pub struct Ahead {
    name: Arc<str>,
    ready: VecDeque<Framed>,
    rest: Rest,
}

/// What follows the rows that are ready.
enum Rest {
    Decoding(JoinHandle<Result<Batch, RowsError>>),
    /// Nothing, or the reason why there is no more.
    Ended(Option<RowsError>),
}

struct Batch {
    framed: Vec<Framed>,
    /// Where it goes on, or how the file ended.
    rest: Result<Rows, Option<RowsError>>,
}

/// Rows in a batch at most.
pub const BATCH: usize = 16;

/// A batch ends with the row that brings it to this size.
const BATCH_BYTES: usize = 1 << 20;

impl Ahead {
    /// Begins to decode `reader`, the contents of the file `name`.
    pub fn open(reader: Box<dyn Read + Send>, name: Arc<str>, limits: Limits) -> Ahead {
        let first = spawn_blocking(move || Rows::open(reader, limits).map(decode));
        Ahead { name, ready: VecDeque::new(), rest: Rest::Decoding(first) }
    }

    /// The next row, or `None` at the end of the file. Cancel safe.
    ///
    /// # Errors
    /// `FixInput` if the file cannot be read, or not to its end; the rows before that place have been given.
    pub async fn next(&mut self) -> Result<Option<Framed>, Error> {
        loop {
            if let Some(framed) = self.ready.pop_front() {
                return Ok(Some(framed));
            }
            let batch = match &mut self.rest {
                Rest::Ended(error) => return error.take().map_or(Ok(None), |error| Err(self.named(error))),
                Rest::Decoding(task) => task.await,
            };
            self.rest = Rest::Ended(None);
            let batch = batch
                .map_err(|panic| {
                    Error::new(ErrorKind::Bug, format!("the reader of {} panicked", self.name)).because(panic)
                })?
                .map_err(|error| self.named(error))?;
            self.ready.extend(batch.framed);
            self.rest = match batch.rest {
                Ok(rows) => Rest::Decoding(spawn_blocking(move || Ok(decode(rows)))),
                Err(error) => Rest::Ended(error),
            };
        }
    }

    fn named(&self, error: RowsError) -> Error {
        Error::new(ErrorKind::FixInput, format!("{}: {error}", self.name))
    }
}

/// Decodes one batch; blocking.
fn decode(mut rows: Rows) -> Batch {
    let (mut framed, mut bytes) = (Vec::new(), 0);
    while framed.len() < BATCH && bytes < BATCH_BYTES {
        let Some(row) = rows.next() else { return Batch { framed, rest: Err(rows.finish().err()) } };
        bytes += row.bytes.len();
        framed.push(row);
    }
    Batch { framed, rest: Ok(rows) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Cursor, time::Duration};

    fn ahead(text: String) -> Ahead {
        Ahead::open(Box::new(Cursor::new(text)), "a.jsonl".into(), Limits::default())
    }

    #[tokio::test]
    async fn all_rows_come_in_order() {
        let count = BATCH as u64 * 3 + 1;
        let mut rows = ahead((0..count).map(|n| format!("{{\"n\":{n}}}\n")).collect());
        let mut positions = Vec::new();
        while let Some(row) = rows.next().await.expect("it can be read") {
            positions.push(row.position);
        }
        assert_eq!(positions, (1..=count).collect::<Vec<_>>());
        assert!(rows.next().await.expect("the end stays the end").is_none());
    }

    #[tokio::test]
    async fn the_rows_before_a_break_are_given_first() {
        let text: String = (0..BATCH + 3).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        let mut zipped = zstd::bulk::compress(text.as_bytes(), 3).expect("it compresses");
        zipped.extend_from_slice(b"no frame");
        let mut rows = Ahead::open(Box::new(Cursor::new(zipped)), "a.jsonl".into(), Limits::default());
        for _ in 0..BATCH + 3 {
            assert!(rows.next().await.expect("a row").is_some());
        }
        let error = rows.next().await.expect_err("the file breaks off");
        assert!(error.to_string().starts_with("a.jsonl: "), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn rows_that_nobody_takes_do_not_hold_the_clock() {
        let mut rows = ahead((0..BATCH * 5).map(|n| format!("{{\"n\":{n}}}\n")).collect());
        assert!(rows.next().await.expect("a row").is_some());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(rows.next().await.expect("a row").is_some());
    }
}
