//! What a run shows while it goes: one live line on a terminal, a plain line now and then elsewhere.

use super::note;
use crate::{pipeline::View, record::End, watch::Rate};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::{
    io::{self, IsTerminal, Write},
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::{sync::oneshot, task::JoinHandle, time};

/// Every line that goes to the terminal while a live line stands there goes through this, so that neither breaks.
static TERMINAL: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Where log lines go: above the live line.
pub fn log_writer() -> impl Write {
    struct Above;
    impl Write for Above {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error would be printed by the logger, to the same place: where nobody reads, nobody is told.
            let _unread = TERMINAL.suspend(|| io::stderr().write_all(bytes));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    Above
}

/// A run that is being shown.
pub struct Shown {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Shown {
    /// Shows the run a last time and stops.
    pub async fn end(self) {
        // The task can only be gone before if it panicked; then there is nothing left to stop.
        let _told = self.end.send(());
        let _ended = self.task.await;
    }
}

/// How often the live line changes, and how often a plain one is printed.
const LIVE: Duration = Duration::from_millis(250);
const PLAIN: Duration = Duration::from_secs(10);

/// Rates are those of the last half minute.
const WINDOW: Duration = Duration::from_secs(30);

/// Starts to show a run.
pub fn show(view: Arc<View>) -> Shown {
    let (end, mut ended) = oneshot::channel();
    let live = io::stderr().is_terminal();
    #[expect(clippy::disallowed_methods, reason = "joined by `Shown::end`")]
    let task = tokio::spawn(async move {
        let bar = live.then(|| TERMINAL.add(ProgressBar::no_length().with_style(ProgressStyle::default_spinner())));
        let mut every = time::interval(if live { LIVE } else { PLAIN });
        every.tick().await;
        let mut pace = Pace::new();
        loop {
            let last = tokio::select! {
                _ = every.tick() => false,
                _ = &mut ended => true,
            };
            let line = pace.line(&view);
            match &bar {
                Some(bar) if last => bar.finish_with_message(line),
                Some(bar) => {
                    bar.set_message(line);
                    bar.tick();
                }
                None => note(&line),
            }
            if last {
                return;
            }
        }
    });
    Shown { end, task }
}

/// The rates behind the line.
struct Pace {
    rows: Rate,
    requests: Rate,
    tokens: Rate,
}

impl Pace {
    fn new() -> Pace {
        Pace { rows: Rate::over(WINDOW), requests: Rate::over(WINDOW), tokens: Rate::over(WINDOW) }
    }

    fn line(&mut self, view: &View) -> String {
        let now = time::Instant::now();
        let tally = view.tally();
        let count = |which: fn(&End) -> bool| tally.count(which);
        let accepted = count(|end| *end == End::Accepted);
        let forwarded = count(|end| *end == End::Forwarded);
        let rejected = count(|end| matches!(end, End::Rejected(_)));
        let failed = count(|end| matches!(end, End::Failed(_)));
        let bad = count(|end| matches!(end, End::BadInput(_)));
        let done = accepted + forwarded + rejected + failed + bad;
        self.rows.saw(now, done);
        let mut line = format!("{} rows done: {accepted} accepted", done + view.earlier());
        for (number, word) in
            [(forwarded, "forwarded"), (rejected, "rejected"), (failed, "failed"), (bad, "unreadable")]
        {
            if number > 0 {
                line.push_str(&format!(", {number} {word}"));
            }
        }
        if let Some(fleet) = &view.fleet {
            let totals = fleet.totals();
            let landed = totals.requests - totals.in_flight as u64;
            self.requests.saw(now, landed);
            self.tokens.saw(now, totals.usage.completion_tokens.unwrap_or(0));
            let per_second = |rate: &Rate| rate.per_second().map_or("-".to_owned(), |rate| format!("{rate:.1}"));
            line.push_str(&format!(
                " | {} req/s, {} tokens/s, {} in flight",
                per_second(&self.requests),
                per_second(&self.tokens),
                totals.in_flight
            ));
        }
        if let Some(share) = view.progress.share() {
            line.push_str(&format!(" | {:.0} % read", share * 100.0));
            if let Some(left) = self.left(share, view.earlier() as f64, tally.entered as f64, done as f64) {
                line.push_str(&format!(" | about {} left", humantime::format_duration(left)));
            }
        }
        line
    }

    /// The time that is left: rows to come, guessed from the share of bytes read, at the pace of the window. Rows that
    /// earlier sessions did count as read, not as pace.
    fn left(&self, share: f64, earlier: f64, entered: f64, done: f64) -> Option<Duration> {
        let pace = self.rows.per_second().filter(|pace| *pace > 0.0)?;
        let to_come = (earlier + entered) / share - earlier - done;
        let seconds = (to_come / pace).clamp(0.0, 1e9);
        Some(Duration::from_secs(seconds as u64))
    }
}
