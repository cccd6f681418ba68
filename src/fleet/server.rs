//! One server's states and what moves it between them (pure: no I/O, time is given).

use crate::record::{Reason, Usage};
use serde::Serialize;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// One inference server, as the client sees it.
#[derive(Debug)]
pub struct Server {
    /// Its base URL, without credentials.
    pub url: Arc<str>,
    /// Requests it has now.
    pub in_flight: usize,
    /// Requests it may have at once.
    pub cap: usize,
    /// What it has done so far.
    pub counts: Counts,
    state: State,
    /// Failures since the last answer.
    failures: u32,
    busy_since: Option<Instant>,
}

/// What a server has done so far, as the client counts it.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Requests sent, without probes.
    pub requests: u64,
    /// Answers that are in the output.
    pub accepted: u64,
    /// Tokens, as the server says; also of answers that were not accepted.
    pub usage: Usage,
    /// Time in which it had at least one request.
    pub busy: Duration,
}

impl Counts {
    /// Books what an answer cost.
    pub fn add(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
    }
}

/// Whether a server gets requests.
#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Not asked yet, or down until an instant; then it is probed.
    Down { until: Instant, why: Reason, detail: String },
    /// A probe is on its way.
    Probing { why: Reason, detail: String },
    /// It answers.
    Up,
    /// It answers, but takes no more for now.
    Paused { until: Instant },
}

/// A server's state in one word, for people and for `summary.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It answers.
    Up,
    /// It answers, but asked for a pause.
    Paused,
    /// It loads its model.
    Loading,
    /// It sends nothing.
    Stalled,
    /// It serves another model.
    WrongModel,
    /// It does not accept the key.
    Unauthorized,
    /// It cannot be reached, or fails.
    Down,
    /// It was not asked yet.
    Unknown,
}

impl std::fmt::Display for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Health::Up => "up",
            Health::Paused => "paused",
            Health::Loading => "loading",
            Health::Stalled => "stalled",
            Health::WrongModel => "wrong_model",
            Health::Unauthorized => "unauthorized",
            Health::Down => "down",
            Health::Unknown => "unknown",
        })
    }
}

/// One bad reply may be the record's fault; this many in a row are the server's.
const FAILURES_IN_A_ROW: u32 = 3;

impl Server {
    /// A server that was not asked yet: it is probed first.
    pub fn new(url: Arc<str>, cap: usize, now: Instant) -> Server {
        let state = State::Down { until: now, why: Reason::Unreachable, detail: String::new() };
        Server { url, in_flight: 0, cap: cap.max(1), counts: Counts::default(), state, failures: 0, busy_since: None }
    }

    /// Whether it may get one more request.
    pub fn is_free(&self, now: Instant) -> bool {
        self.in_flight < self.cap && self.answers(now)
    }

    /// Whether it gets requests at all now.
    pub fn answers(&self, now: Instant) -> bool {
        match self.state {
            State::Up => true,
            State::Paused { until } => now >= until,
            State::Down { .. } | State::Probing { .. } => false,
        }
    }

    /// Books a request that is being sent.
    pub fn sent(&mut self, now: Instant) {
        self.in_flight += 1;
        self.counts.requests += 1;
        self.busy_since.get_or_insert(now);
    }

    /// Books that a request has ended, whatever came of it.
    pub fn landed(&mut self, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0
            && let Some(since) = self.busy_since.take()
        {
            self.counts.busy += now.saturating_duration_since(since);
        }
    }

    /// Time in which it had requests, up to now.
    pub fn busy(&self, now: Instant) -> Duration {
        self.counts.busy + self.busy_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// It answered.
    pub fn answered(&mut self, now: Instant) {
        self.failures = 0;
        if let State::Paused { until } = self.state
            && now >= until
        {
            self.state = State::Up;
        }
    }

    /// It failed in a way that may be the record's doing: it is down after several in a row.
    pub fn failed(&mut self, why: Reason, detail: &str, now: Instant, rest: Duration) {
        self.failures += 1;
        if self.failures >= FAILURES_IN_A_ROW {
            self.goes_down(why, detail, now, rest);
        }
    }

    /// It is certainly not there (or is the wrong one): it is probed again after `rest`.
    pub fn goes_down(&mut self, why: Reason, detail: &str, now: Instant, rest: Duration) {
        // Requests that were in flight when it went down land one by one; only the first counts as a failure.
        if matches!(self.state, State::Up | State::Paused { .. } | State::Probing { .. }) {
            self.failures = self.failures.max(1);
            self.state = State::Down { until: now + rest, why, detail: detail.to_owned() };
        }
    }

    /// It takes no more for `rest`.
    pub fn pauses(&mut self, now: Instant, rest: Duration) {
        if matches!(self.state, State::Up | State::Paused { .. }) {
            self.failures += 1;
            self.state = State::Paused { until: now + rest };
        }
    }

    /// Failures since the last answer: what a rest is computed from.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether it is time to probe it; then it counts as being probed.
    pub fn take_probe(&mut self, now: Instant) -> bool {
        let State::Down { until, why, detail } = &self.state else { return false };
        if now < *until {
            return false;
        }
        self.state = State::Probing { why: *why, detail: detail.clone() };
        true
    }

    /// A probe got a real answer.
    pub fn proven(&mut self) {
        self.failures = 0;
        self.state = State::Up;
    }

    /// A probe got none.
    pub fn unproven(&mut self, why: Reason, detail: &str, now: Instant, rest: Duration) {
        self.failures += 1;
        self.state = State::Down { until: now + rest, why, detail: detail.to_owned() };
    }

    /// When its state changes by itself, if it does.
    pub fn next_change(&self) -> Option<Instant> {
        match self.state {
            State::Down { until, .. } | State::Paused { until } => Some(until),
            State::Up | State::Probing { .. } => None,
        }
    }

    /// Its state in one word.
    pub fn health(&self, now: Instant) -> Health {
        let why = match &self.state {
            State::Up => return Health::Up,
            State::Paused { until } => return if now < *until { Health::Paused } else { Health::Up },
            State::Down { why, .. } | State::Probing { why, .. } => why,
        };
        match why {
            Reason::Loading => Health::Loading,
            Reason::Stalled => Health::Stalled,
            Reason::UnknownModel => Health::WrongModel,
            Reason::Unauthorized => Health::Unauthorized,
            _ if self.failures == 0 => Health::Unknown,
            _ => Health::Down,
        }
    }

    /// What is to be known about its trouble, if it has any.
    pub fn trouble(&self) -> Option<&str> {
        match &self.state {
            State::Down { detail, .. } | State::Probing { detail, .. } if !detail.is_empty() => Some(detail),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(10);

    fn up(now: Instant) -> Server {
        let mut server = Server::new("http://a".into(), 2, now);
        assert!(server.take_probe(now));
        server.proven();
        server
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_gets_nothing_before_it_has_answered_a_probe() {
        let now = Instant::now();
        let mut server = Server::new("http://a".into(), 2, now);
        assert!(!server.is_free(now));
        assert!(server.take_probe(now) && !server.take_probe(now), "one probe at a time");
        server.unproven(Reason::Loading, "loading model", now, REST);
        assert_eq!(server.health(now), Health::Loading);
        assert!(!server.take_probe(now) && server.take_probe(now + REST));
        server.proven();
        assert!(server.is_free(now));
    }

    #[tokio::test(start_paused = true)]
    async fn one_bad_reply_does_not_take_a_server_down_and_three_in_a_row_do() {
        let now = Instant::now();
        let mut server = up(now);
        for _ in 0..2 {
            server.failed(Reason::ServerError, "HTTP 500", now, REST);
        }
        server.answered(now);
        for _ in 0..2 {
            server.failed(Reason::ServerError, "HTTP 500", now, REST);
        }
        assert_eq!(server.health(now), Health::Up);
        server.failed(Reason::ServerError, "HTTP 500", now, REST);
        assert_eq!(server.health(now), Health::Down);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_server_comes_back_by_itself() {
        let now = Instant::now();
        let mut server = up(now);
        server.pauses(now, REST);
        assert!(!server.is_free(now) && server.is_free(now + REST));
        assert_eq!(server.next_change(), Some(now + REST));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_sent_than_the_cap() {
        let now = Instant::now();
        let mut server = up(now);
        server.sent(now);
        server.sent(now);
        assert!(!server.is_free(now));
        server.landed(now + REST);
        assert!(server.is_free(now));
        server.landed(now + REST);
        assert_eq!(server.busy(now + REST * 5), REST);
    }
}
