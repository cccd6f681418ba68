//! [`Fault`]: what goes wrong, as data.
//!
//! Whether a fault strikes is decided when a request arrives, from the seed, the prompt and how often that prompt has
//! been asked before; never from a generator that is shared, so that the order of arrivals changes nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One thing that goes wrong: what, for which share of the requests, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// The share of the requests it strikes, 0 to 1. `down` and `loading` strike all of them.
    #[serde(default = "all")]
    pub share: f64,
    /// The servers it strikes, counted from 0; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<usize>,
    /// When it begins, in seconds of the servers' time; not set: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// When it ends; not set: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
    /// Strikes only the first so many attempts of a prompt, so that asking again helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_attempts: Option<u32>,
    /// Strikes only the first so many requests that each server gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_requests: Option<u64>,
    /// For `slow`: how many times slower.
    #[serde(default = "half_speed")]
    pub factor: f64,
    /// For `http_error`: the status.
    #[serde(default = "internal_error")]
    pub status: u16,
    /// For faults in the middle of a reply: after which share of its tokens.
    #[serde(default = "halfway")]
    pub at: f64,
}

fn all() -> f64 {
    1.0
}
fn half_speed() -> f64 {
    2.0
}
fn internal_error() -> u16 {
    500
}
fn halfway() -> f64 {
    0.5
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The request goes `factor` times slower than it should.
    Slow,
    /// The head of a stream and no byte more; of a whole reply not even the head. `/health` stays green.
    Stall,
    /// The connection is lost in the middle of the reply.
    Reset,
    /// The model is still being loaded: every route answers 503.
    Loading,
    /// Nothing listens: connections are refused, and open ones are lost when it begins.
    Down,
    /// A JSON error of status `status`.
    HttpError,
    /// A gateway's 502 with an HTML page.
    HtmlError,
    /// Neither thought nor answer, ended with `stop`.
    Empty,
    /// A thought that ends with `stop`, and no answer.
    OnlyThinking,
    /// One phrase over and over, up to the token limit.
    Garbage,
    /// Ends with `length` before the end, whatever the limit was.
    Truncated,
    /// Status 200, a part of the answer, and `abort` as the finish reason, as vLLM does when it is stopped.
    Aborted,
    /// Status 200 with an error as the body, or as a stream's only event.
    #[serde(rename = "error_inside_200")]
    ErrorInside200,
    /// A stream that ends with an error event and `[DONE]`; for a whole reply a 500.
    SseError,
    /// The queue is full, said as the dialect says it: SGLang puts it inside a 200 when the reply is a stream.
    QueueFull,
    /// A stream that ends well formed but without a finish reason; a whole reply that is half a JSON document.
    Cut,
    /// The reply names another model.
    WrongModel,
}

/// One request, as far as faults are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occasion {
    /// The server it came to.
    pub server: usize,
    /// When, on the servers' clock.
    pub now: Duration,
    /// How many requests this server got before.
    pub earlier_requests: u64,
    /// What was asked, as a hash.
    pub prompt: u64,
    /// How often the same was asked before, on any server.
    pub earlier_attempts: u32,
    /// The seed that the request names, or 0.
    pub request_seed: u64,
}

impl Fault {
    /// A fault of `kind` that strikes everything, always.
    pub fn always(kind: FaultKind) -> Self {
        Fault {
            kind,
            share: all(),
            servers: Vec::new(),
            from: None,
            until: None,
            first_attempts: None,
            first_requests: None,
            factor: half_speed(),
            status: internal_error(),
            at: halfway(),
        }
    }

    /// The same fault for a share of the requests, 0 to 1.
    #[must_use]
    pub fn share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    /// The same fault from one time to another, on the servers' clock.
    #[must_use]
    pub fn between(mut self, from: Duration, until: Duration) -> Self {
        self.from = Some(from.as_secs_f64());
        self.until = Some(until.as_secs_f64());
        self
    }

    /// The same fault for some servers only.
    #[must_use]
    pub fn on(mut self, servers: &[usize]) -> Self {
        self.servers = servers.to_vec();
        self
    }

    /// The same fault for the first `attempts` attempts of a prompt only.
    #[must_use]
    pub fn for_attempts(mut self, attempts: u32) -> Self {
        self.first_attempts = Some(attempts);
        self
    }

    /// Whether its numbers make sense.
    pub fn is_sound(&self) -> bool {
        let time = |time: Option<f64>| time.is_none_or(|time| time.is_finite() && time >= 0.0);
        (0.0..=1.0).contains(&self.share)
            && (0.0..=1.0).contains(&self.at)
            && self.factor.is_finite()
            && self.factor > 0.0
            && (100..=599).contains(&self.status)
            && time(self.from)
            && time(self.until)
    }

    /// Whether it concerns `server` at time `now`.
    pub fn is_on(&self, server: usize, now: Duration) -> bool {
        (self.servers.is_empty() || self.servers.contains(&server))
            && self.from.is_none_or(|from| now.as_secs_f64() >= from)
            && self.until.is_none_or(|until| now.as_secs_f64() < until)
    }

    /// The next time after `now` at which it begins or ends.
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        [self.from, self.until]
            .into_iter()
            .flatten()
            .filter_map(|time| Duration::try_from_secs_f64(time).ok())
            .filter(|time| *time > now)
            .min()
    }

    /// Whether it strikes this request; `number` is its place in the list, so that two alike strike apart.
    fn strikes(&self, number: usize, seed: u64, occasion: &Occasion) -> bool {
        if !self.is_on(occasion.server, occasion.now)
            || self.first_attempts.is_some_and(|first| occasion.earlier_attempts >= first)
            || self.first_requests.is_some_and(|first| occasion.earlier_requests >= first)
        {
            return false;
        }
        let mut bytes = [0; 28];
        for (into, from) in bytes.chunks_exact_mut(8).zip([number as u64, occasion.prompt, occasion.request_seed]) {
            into.copy_from_slice(&from.to_le_bytes());
        }
        if let Some(into) = bytes.get_mut(24..) {
            into.copy_from_slice(&occasion.earlier_attempts.to_le_bytes());
        }
        // The 53 upper bits of a hash are an even draw from 0 to 1.
        let draw = (xxh3_64_with_seed(&bytes, seed) >> 11) as f64 / (1u64 << 53) as f64;
        draw < self.share
    }
}

/// The first fault in `faults` that strikes this request; `down` and `loading` are not asked here.
pub fn striking<'a>(faults: &'a [Fault], seed: u64, occasion: &Occasion) -> Option<&'a Fault> {
    faults
        .iter()
        .enumerate()
        .filter(|(_, fault)| !matches!(fault.kind, FaultKind::Down | FaultKind::Loading))
        .find(|(number, fault)| fault.strikes(*number, seed, occasion))
        .map(|(_, fault)| fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occasion(prompt: u64, earlier_attempts: u32) -> Occasion {
        Occasion { server: 0, now: Duration::ZERO, earlier_requests: 0, prompt, earlier_attempts, request_seed: 0 }
    }

    #[test]
    fn a_share_strikes_about_that_many_and_the_same_ones_each_time() {
        let faults = [Fault::always(FaultKind::Empty).share(0.3)];
        let struck = |seed| (0..10_000).filter(|p| striking(&faults, seed, &occasion(*p, 0)).is_some()).collect();
        let (one, again, other): (Vec<_>, Vec<_>, Vec<_>) = (struck(1), struck(1), struck(2));
        assert!((2850..3150).contains(&one.len()), "{}", one.len());
        assert_eq!(one, again);
        assert_ne!(one, other);
    }

    #[test]
    fn asking_again_is_a_new_draw() {
        let faults = [Fault::always(FaultKind::Empty).share(0.5)];
        let both = (0..1000).filter(|p| (0..2).all(|n| striking(&faults, 1, &occasion(*p, n)).is_some())).count();
        assert!((200..300).contains(&both), "{both}");
    }

    #[test]
    fn windows_servers_and_attempts_limit_a_fault() {
        let fault = Fault::always(FaultKind::Reset)
            .between(Duration::from_secs(10), Duration::from_secs(20))
            .on(&[2])
            .for_attempts(1);
        let at = |server, now, earlier_attempts| {
            let occasion = Occasion { server, now: Duration::from_secs(now), ..occasion(7, earlier_attempts) };
            striking(std::slice::from_ref(&fault), 1, &occasion).is_some()
        };
        assert!(at(2, 10, 0));
        assert!(!at(2, 9, 0) && !at(2, 20, 0) && !at(1, 15, 0) && !at(2, 15, 1));
        assert_eq!(fault.next_change(Duration::from_secs(10)), Some(Duration::from_secs(20)));
        assert_eq!(fault.next_change(Duration::from_secs(20)), None);
    }

    #[test]
    fn a_fault_is_one_line_of_toml() {
        #[derive(Deserialize)]
        struct File {
            fault: Vec<Fault>,
        }
        let file: File = toml::from_str(
            "[[fault]]\nkind = \"error_inside_200\"\n[[fault]]\nkind = \"http_error\"\nstatus = 429\nshare = 0.01\nuntil = 60",
        )
        .expect("it parses");
        assert_eq!(file.fault[0], Fault::always(FaultKind::ErrorInside200));
        assert_eq!((file.fault[1].status, file.fault[1].until), (429, Some(60.0)));
        assert!(toml::from_str::<File>("[[fault]]\nkind = \"empty\"\nshares = 1").is_err());
    }
}
