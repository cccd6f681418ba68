//! [`Engine`]: a continuous-batching inference engine as pure state: no I/O, no async, no clock of its own.
//!
//! At batch size `b` an engine makes `peak · b / (b + half)` tokens a second, shared equally by the requests that run.
//! So every running request gains the same *credit*, and a request is done when the credit has grown by its tokens.
//! One number grows for all of them, and the next one to end is the first in an ordered set: an event costs O(log n),
//! however many tokens are made between two events.
//!
//! Reading a prompt (prefill) holds all decoding up for as long as it takes, as it does in an engine without chunks.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

/// Names one request of one engine; never used twice.
pub type RequestId = u64;

/// How fast an engine is, and how much it takes at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// Tokens per second that a very large batch would make.
    pub peak: f64,
    /// The batch size at which half of `peak` is reached.
    pub half: f64,
    /// Prompt tokens read per second.
    pub prefill: f64,
    /// Requests that run at once; further ones wait.
    pub max_running: usize,
    /// Requests that wait at once; further ones are refused. `None`: all wait.
    pub max_queued: Option<usize>,
}

/// What one request asks of an engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Tokens to read.
    pub prompt_tokens: u32,
    /// Tokens to make.
    pub output_tokens: u32,
    /// What one of its tokens costs, in ordinary tokens; 2 for a request that goes half as fast as its neighbours.
    pub cost: f64,
}

/// What became of a request that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It runs.
    Running,
    /// It waits for one that runs to end.
    Queued,
    /// The queue is full; the engine knows nothing of it.
    Refused,
}

/// What an engine's own counters say.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Gauges {
    /// Tokens made so far, those of unfinished and cancelled requests included.
    pub generation_tokens: u64,
    /// Tokens of requests that have ended; what SGLang's `generation_tokens_total` shows.
    pub finished_tokens: u64,
    /// Prompt tokens read so far.
    pub prompt_tokens: u64,
    /// Requests that run.
    pub running: usize,
    /// Requests that wait.
    pub queued: usize,
    /// Requests that ran to their end.
    pub finished: u64,
    /// Requests that were cancelled.
    pub cancelled: u64,
    /// Tokens that the running requests hold in the cache.
    pub cached_tokens: u64,
    /// Tokens per second now; when idle, the last value there was.
    pub throughput: f64,
}

/// The engine. All times are since it started, and never go back: an earlier `now` counts as the latest one.
#[derive(Debug)]
pub struct Engine {
    capacity: Capacity,
    now: Duration,
    /// Until when a prompt is being read.
    reading_until: Duration,
    /// Tokens made by a request that has run, at cost 1, since the engine was last idle.
    credit: f64,
    /// Running requests by the credit at which they end.
    running: BTreeSet<(Credit, RequestId)>,
    /// Waiting requests by their order of arrival.
    queue: BTreeMap<u64, RequestId>,
    arrivals: u64,
    requests: HashMap<RequestId, Request>,
    finished: Vec<(Duration, RequestId)>,
    totals: Gauges,
}

#[derive(Debug)]
struct Request {
    work: Work,
    place: Place,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Queued { order: u64 },
    Running { since: f64, until: f64 },
}

/// A credit as a key: the bits of floats that are not negative have the order of the floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Credit(u64);

impl Credit {
    fn of(credit: f64) -> Self {
        Credit(credit.max(0.0).to_bits())
    }
    fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Engine {
    /// An idle engine.
    pub fn new(capacity: Capacity) -> Self {
        Engine {
            capacity,
            now: Duration::ZERO,
            reading_until: Duration::ZERO,
            credit: 0.0,
            running: BTreeSet::new(),
            queue: BTreeMap::new(),
            arrivals: 0,
            requests: HashMap::new(),
            finished: Vec::new(),
            totals: Gauges::default(),
        }
    }

    /// A request arrives.
    pub fn arrive(&mut self, now: Duration, id: RequestId, work: Work) -> Admission {
        self.advance(now);
        if self.running.len() >= self.capacity.max_running.max(1)
            && self.capacity.max_queued.is_some_and(|most| self.queue.len() >= most)
        {
            return Admission::Refused;
        }
        let order = self.arrivals;
        self.arrivals += 1;
        self.queue.insert(order, id);
        self.requests.insert(id, Request { work, place: Place::Queued { order } });
        self.admit();
        if self.queue.contains_key(&order) { Admission::Queued } else { Admission::Running }
    }

    /// A request is cancelled: its slot is free at once. Gives the tokens made so far; 0 for one that is not here.
    pub fn cancel(&mut self, now: Duration, id: RequestId) -> u32 {
        self.advance(now);
        let made = self.made(id);
        let Some(request) = self.requests.remove(&id) else { return 0 };
        match request.place {
            Place::Queued { order } => {
                self.queue.remove(&order);
            }
            Place::Running { until, .. } => {
                self.running.remove(&(Credit::of(until), id));
                self.totals.generation_tokens += u64::from(made);
            }
        }
        self.totals.cancelled += 1;
        self.admit();
        made
    }

    /// Counts a request as done without doing it: for engines that are asked to take no time.
    pub fn book(&mut self, work: Work) {
        self.totals.prompt_tokens += u64::from(work.prompt_tokens);
        self.totals.generation_tokens += u64::from(work.output_tokens);
        self.totals.finished_tokens += u64::from(work.output_tokens);
        self.totals.finished += 1;
    }

    /// When the next request will end, and which, if none arrives or is cancelled before.
    pub fn next_completion(&self) -> Option<(Duration, RequestId)> {
        let (until, id) = self.running.first()?;
        let seconds = (until.value() - self.credit).max(0.0) / self.rate();
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Some((self.now.max(self.reading_until).saturating_add(wait), *id))
    }

    /// Lets time pass, and gives the requests that have ended since the last call with the time they ended, in order.
    pub fn complete(&mut self, now: Duration) -> Vec<(Duration, RequestId)> {
        self.advance(now);
        std::mem::take(&mut self.finished)
    }

    /// The tokens a request has made; 0 for one that waits or is not here.
    pub fn tokens_made(&mut self, now: Duration, id: RequestId) -> u32 {
        self.advance(now);
        self.made(id)
    }

    /// The engine's own counters.
    pub fn gauges(&mut self, now: Duration) -> Gauges {
        self.advance(now);
        let mut gauges = self.totals;
        gauges.running = self.running.len();
        gauges.queued = self.queue.len();
        for (_, id) in &self.running {
            let made = u64::from(self.made(*id));
            let prompt = self.requests.get(id).map_or(0, |request| u64::from(request.work.prompt_tokens));
            gauges.generation_tokens += made;
            gauges.cached_tokens += made + prompt;
        }
        gauges
    }

    /// Tokens per second that each running request makes.
    fn rate(&self) -> f64 {
        self.capacity.peak / (self.running.len() as f64 + self.capacity.half)
    }

    fn made(&self, id: RequestId) -> u32 {
        match self.requests.get(&id) {
            Some(Request { work, place: Place::Running { since, .. } }) => {
                // The nudge makes up for the rounding of a sum: a token that is due counts as made.
                let made = (self.credit - since) / work.cost + 1e-6;
                (made.max(0.0) as u32).min(work.output_tokens)
            }
            _ => 0,
        }
    }

    /// Lets time pass up to `now`, one completion after the other, each at its own time.
    fn advance(&mut self, now: Duration) {
        while let Some((at, id)) = self.next_completion().filter(|(at, _)| *at <= now) {
            self.now = at;
            if let Some((until, _)) = self.running.pop_first() {
                self.credit = until.value();
            }
            if let Some(request) = self.requests.remove(&id) {
                self.totals.generation_tokens += u64::from(request.work.output_tokens);
                self.totals.finished_tokens += u64::from(request.work.output_tokens);
                self.totals.finished += 1;
            }
            self.finished.push((at, id));
            self.admit();
        }
        if now > self.now {
            let from = self.now.max(self.reading_until);
            if !self.running.is_empty() {
                self.credit += now.saturating_sub(from).as_secs_f64() * self.rate();
            }
            self.now = now;
        }
    }

    /// Moves requests from the queue to free slots.
    fn admit(&mut self) {
        if self.running.is_empty() {
            self.credit = 0.0;
        }
        while self.running.len() < self.capacity.max_running.max(1) {
            let Some((_, id)) = self.queue.pop_first() else { break };
            let Some(request) = self.requests.get_mut(&id) else { continue };
            let until = self.credit + f64::from(request.work.output_tokens) * request.work.cost;
            request.place = Place::Running { since: self.credit, until };
            self.running.insert((Credit::of(until), id));
            let reading = f64::from(request.work.prompt_tokens) / self.capacity.prefill;
            let reading = Duration::try_from_secs_f64(reading).unwrap_or_default();
            self.reading_until = self.reading_until.max(self.now).saturating_add(reading);
            self.totals.prompt_tokens += u64::from(request.work.prompt_tokens);
        }
        if !self.running.is_empty() {
            self.totals.throughput = self.rate() * self.running.len() as f64;
        }
    }
}

#[cfg(test)]
mod tests;
