//! [`Alarm`]: a run most of whose answers are bad stops itself, before more GPU hours are spent on them.
//!
//! Slow answers come last, so the first ends are not like the others: of rows that a server refuses, many have ended
//! before the first real answer is whole. Until as many rows have ended as are under way, those under way therefore
//! count as good. From then on as many enter as leave, and each window is judged by itself.

use super::advice::advice;
use crate::{
    edge::Account,
    error::Error,
    progress::Progress,
    record::{Reason, Rejection},
    stop::Stop,
};
use futures::future::select_all;
use std::{collections::BTreeMap, sync::Arc};

/// Ends that are judged together.
const WINDOW: u64 = 200;
/// Fewer ends than this say nothing.
const LEAST: u64 = 50;

/// Watches the accounts of the stages that ask and judge.
pub(super) struct Alarm {
    /// The account of the stage that asks.
    asks: Arc<Account>,
    /// Those of the stages after it, up to the last that judges.
    judge: Vec<Arc<Account>>,
    progress: Arc<Progress>,
    stop: Stop,
    /// The share of bad ends that is still borne.
    most: f64,
}

/// What has come of the rows that were to be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    /// They have left the stage that asks.
    ended: u64,
    /// They are still there.
    under_way: u64,
    /// They were set aside, by it or by those that judge.
    bad: u64,
}

/// The ends since a certain moment.
#[derive(Debug, Default)]
struct Window {
    since: Count,
    settled: bool,
}

impl Alarm {
    /// An alarm that sounds when more than `most` (0 to 1) of the rows end badly.
    pub(super) fn new(
        asks: Arc<Account>,
        judge: Vec<Arc<Account>>,
        progress: Arc<Progress>,
        stop: Stop,
        most: f64,
    ) -> Self {
        Alarm { asks, judge, progress, stop, most }
    }

    /// Waits until most of the answers are bad; the error says so, and what to do. Never ends if they are not.
    pub(super) async fn sounds(self) -> Error {
        let mut window = Window::default();
        loop {
            // Refusals cost no time: looked at every second, thousands of rows would be set aside in between.
            select_all(self.accounts().map(|account| Box::pin(account.rejection()))).await;
            let now = self.count();
            let before = window.since;
            // With nothing left to ask there is nothing left to save, and the last answers to come are the longest.
            if window.look(now, self.most) && !self.progress.ended() && !self.stop.draining() {
                return self.error(now.bad - before.bad, now.ended - before.ended);
            }
        }
    }

    fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.judge.iter().chain([&self.asks])
    }

    fn count(&self) -> Count {
        // What is judged is counted first: a row that moves on in between is then missed, and not counted as bad twice.
        let bad: u64 = self.judge.iter().map(|account| account.aside()).sum();
        let refused = self.asks.aside();
        let ended = self.asks.passed() + refused;
        Count { ended, under_way: self.asks.taken().saturating_sub(ended), bad: bad + refused }
    }

    fn error(&self, bad: u64, ended: u64) -> Error {
        let mut reasons: BTreeMap<Reason, (u64, Rejection)> = BTreeMap::new();
        for (rejection, count) in self.accounts().flat_map(|account| account.rejections()) {
            reasons.entry(rejection.reason).or_insert((0, rejection)).0 += count;
        }
        let all: u64 = reasons.values().map(|(count, _)| count).sum();
        let most = reasons.into_values().max_by_key(|(count, _)| *count);
        let (count, Rejection { reason, detail }) = most.unwrap_or((0, Reason::Empty.into()));
        let (kind, advice) = advice(reason);
        let message = format!(
            "stopped early: {bad} of the last {ended} rows were set aside, most of them as `{reason}` ({count} of {all} \
             so far): {advice}; the same command goes on from here, another `run` asks all rows again, and \
             `stop_when_rejected` of `validate` says how many may be bad"
        );
        let error = Error::new(kind, message);
        if detail.is_empty() { error } else { error.because(format!("for instance: {detail}")) }
    }
}

impl Window {
    /// Whether too many of the ends in this window are bad; begins a new window where this one is full.
    fn look(&mut self, now: Count, most: f64) -> bool {
        let ended = now.ended.saturating_sub(self.since.ended);
        let bad = now.bad.saturating_sub(self.since.bad);
        let (enough, rows, full) = if self.settled {
            (WINDOW, ended, WINDOW)
        } else {
            (LEAST, ended + now.under_way, WINDOW.max(now.under_way))
        };
        let alarm = ended >= enough && bad as f64 > most * rows as f64;
        if ended >= full {
            *self = Window { since: now, settled: true };
        }
        alarm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(ended: u64, under_way: u64, bad: u64) -> Count {
        Count { ended, under_way, bad }
    }

    #[test]
    fn few_ends_say_nothing_and_many_bad_ones_do() {
        let mut window = Window::default();
        assert!(!window.look(count(49, 0, 49), 0.5));
        assert!(window.look(count(50, 0, 26), 0.5));
        assert!(!Window::default().look(count(50, 0, 25), 0.5));
        assert!(!Window::default().look(count(200, 0, 200), 1.0));
    }

    #[test]
    fn refusals_that_come_first_are_not_taken_for_all() {
        // Four of ten rows are refused at once; the six others fill 1000 slots, and take an hour.
        let mut window = Window::default();
        let filling = |rows: u64| count(rows * 4 / 10, rows * 6 / 10, rows * 4 / 10);
        assert!((0..1_600).step_by(100).all(|rows| !window.look(filling(rows), 0.5)));
        // Then as many come as go, four of ten of them bad.
        let steady = |rows: u64| count(640 + rows, 1_000, 640 + rows * 4 / 10);
        assert!((0..5_000).step_by(100).all(|rows| !window.look(steady(rows), 0.5)));
    }

    #[test]
    fn all_bad_is_noticed_once_as_many_have_ended_as_are_under_way() {
        let mut window = Window::default();
        assert!(!window.look(count(224, 224, 224), 0.5));
        assert!(Window::default().look(count(225, 224, 225), 0.5));
    }

    #[test]
    fn a_run_that_turns_bad_is_noticed_in_its_next_window() {
        let mut window = Window::default();
        assert!(!window.look(count(10_000, 100, 10), 0.5));
        assert!(!window.look(count(10_150, 100, 160), 0.5), "the window is not full");
        assert!(window.look(count(10_200, 100, 210), 0.5));
    }
}
