//! The fleet: who is asked, how often, and what a reply means.
//!
//! [`Fleet`] is the place where the pure parts meet: `server` says what a server's state is, `choice` which one
//! takes the next request, [`retry`] whose trouble a fault is, [`classify`] what a reply is.

mod attempt;
mod choice;
pub mod classify;
mod http;
mod mask;
mod probe;
mod reply;
pub mod retry;
mod server;
mod settings;
mod sse;
mod transport;
pub mod wire;

pub use attempt::{Landed, Terms, attempt};
pub use classify::{Fault, Outcome};
pub use http::HttpTransport;
pub use probe::probe;
pub use server::Health;
pub use settings::FleetSettings;
pub use transport::{Call, Reply, Transport, TransportError};

use crate::{
    error::{Error, ErrorKind},
    record::Usage,
};
use retry::{Policy, Trouble};
use serde::Serialize;
use server::Server;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// The inference servers of a run: gives out slots, and learns from what came back.
#[derive(Debug)]
pub struct Fleet {
    settings: FleetSettings,
    pool: Mutex<Pool>,
}

#[derive(Debug)]
struct Pool {
    servers: Vec<Server>,
    turn: usize,
    retries: u64,
    recovered: u64,
    /// Since when no server has answered anything; a fleet that is silent for too long is given up.
    silent_since: Instant,
    started: Instant,
}

impl Pool {
    /// Whether servers that nobody knows yet are still waited for, so that all that are up share from the start.
    fn gathering(&self, now: Instant) -> bool {
        now < self.started + GATHERING && self.servers.iter().any(|server| server.health(now) == Health::Unknown)
    }
}

/// How long the first requests wait for servers that have not said anything yet.
const GATHERING: Duration = Duration::from_secs(2);

/// Leave to send one request to one server. It must be brought back: [`Fleet::landed`] or [`Fleet::give_back`].
#[derive(Debug)]
pub struct Slot {
    /// Which server.
    pub server: usize,
    /// Its base URL.
    pub url: Arc<str>,
}

/// One server, as the client saw it: for `summary.json` and for people.
#[derive(Debug, Clone, Serialize)]
pub struct ServerReport {
    /// Its base URL.
    pub url: Arc<str>,
    /// Requests sent to it, without probes.
    pub requests: u64,
    /// Its answers that are in the output.
    pub accepted: u64,
    /// Tokens it made, as it says; null if it does not say.
    pub completion_tokens: Option<u64>,
    /// Those per second of the time in which it had at least one request.
    pub tokens_per_second: Option<f64>,
    /// Requests it has now.
    pub in_flight: usize,
    /// Its state.
    pub state: Health,
    /// What is to be known about its trouble, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Sums over all servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// Requests sent, without probes.
    pub requests: u64,
    /// Requests that asked for a record again.
    pub retries: u64,
    /// Records that were not asked: an earlier session had their answers in the journal.
    pub recovered: u64,
    /// Requests under way.
    pub in_flight: usize,
    /// Tokens, where servers say.
    pub usage: Usage,
}

impl Fleet {
    /// The servers that `settings` names; none of them has been asked anything yet.
    pub fn new(settings: FleetSettings) -> Fleet {
        let now = Instant::now();
        let cap = settings.concurrency.get() as usize;
        let servers = settings.urls().into_iter().map(|url| Server::new(url.into(), cap, now)).collect();
        let pool = Pool { servers, turn: 0, retries: 0, recovered: 0, silent_since: now, started: now };
        Fleet { settings, pool: Mutex::new(pool) }
    }

    /// What the user wrote.
    pub fn settings(&self) -> &FleetSettings {
        &self.settings
    }

    /// What is the same for every request.
    pub fn terms(&self, stream: bool) -> Terms {
        let stall = self.settings.stall_timeout.0;
        let stall = if stream { stall } else { stall * settings::UNSTREAMED_FACTOR };
        Terms { model: self.settings.model.as_str().into(), stream, stall }
    }

    /// Leave to send one request, if any server has a free slot; `avoid` is taken last.
    pub fn take_slot(&self, avoid: Option<usize>) -> Option<Slot> {
        self.with(|pool, now| {
            if pool.gathering(now) {
                return None;
            }
            let index = choice::choose(&pool.servers, pool.turn, avoid, now)?;
            pool.turn = pool.turn.wrapping_add(1);
            let server = pool.servers.get_mut(index)?;
            server.sent(now);
            Some(Slot { server: index, url: Arc::clone(&server.url) })
        })
    }

    /// Brings back a slot whose request came to nothing that says anything about the server.
    pub fn give_back(&self, slot: Slot) {
        self.with(|pool, now| {
            if let Some(server) = pool.servers.get_mut(slot.server) {
                server.landed(now);
            }
        });
    }

    /// Brings back a slot with what came of its request, and says what is to be done with the record.
    pub fn landed(&self, slot: Slot, landed: &Landed) -> Policy {
        self.with(|pool, now| {
            let Some(server) = pool.servers.get_mut(slot.server) else { return Policy::RetryRecord };
            server.landed(now);
            let fault = match &landed.outcome {
                Outcome::Answer(completion) => {
                    server.answered(now);
                    server.counts.add(completion.usage);
                    pool.silent_since = now;
                    return Policy::Judge;
                }
                Outcome::Fault(fault) => fault,
            };
            let policy = match retry::policy(fault.reason) {
                // The server went, most likely, and took all its replies with it: that is no fault of the records.
                Policy::RetryRecord if landed.broke_off => Policy::RetryElsewhere { server: Trouble::Failing },
                policy => policy,
            };
            let spread = now.duration_since(pool.silent_since).subsec_nanos().into();
            let rest = |failures| retry::backoff(failures, fault.retry_after, spread);
            match policy {
                Policy::RetryElsewhere { server: Trouble::Down } => {
                    server.goes_down(fault.reason, &fault.detail, now, rest(server.failures()));
                }
                Policy::RetryElsewhere { server: Trouble::Failing } => {
                    server.failed(fault.reason, &fault.detail, now, rest(server.failures()));
                }
                Policy::RetryElsewhere { server: Trouble::Busy } | Policy::Local => {
                    server.pauses(now, rest(server.failures()));
                }
                Policy::RetryElsewhere { server: Trouble::Unusable } => {
                    server.goes_down(fault.reason, &fault.detail, now, UNUSABLE_FOR);
                }
                Policy::Judge | Policy::Reject | Policy::RetryRecord => {
                    server.answered(now);
                    pool.silent_since = now;
                }
            }
            policy
        })
    }

    /// A server that is to be probed now, if there is one; [`Fleet::probed`] must follow.
    pub fn take_probe(&self) -> Option<(usize, Arc<str>)> {
        self.with(|pool, now| {
            let (index, server) = pool
                .servers
                .iter_mut()
                .enumerate()
                .find_map(|(index, server)| server.take_probe(now).then_some((index, server)))?;
            Some((index, Arc::clone(&server.url)))
        })
    }

    /// What came of a probe.
    pub fn probed(&self, server: usize, result: Result<(), Fault>) {
        self.with(|pool, now| {
            let Some(server) = pool.servers.get_mut(server) else { return };
            match result {
                Ok(()) => {
                    tracing::info!(server = %server.url, "up");
                    server.proven();
                    pool.silent_since = now;
                }
                Err(fault) => {
                    let spread = u64::from(now.duration_since(pool.silent_since).subsec_nanos());
                    let rest = match retry::policy(fault.reason) {
                        Policy::RetryElsewhere { server: Trouble::Unusable } => UNUSABLE_FOR,
                        _ => retry::backoff(server.failures(), fault.retry_after, spread),
                    };
                    tracing::warn!(server = %server.url, reason = %fault.reason, "not usable: {}", fault.detail);
                    server.unproven(fault.reason, &fault.detail, now, rest);
                }
            }
        });
    }

    /// When a server's state changes by itself, at the earliest.
    pub fn next_change(&self) -> Option<Instant> {
        self.with(|pool, now| {
            let changes = pool.servers.iter().filter_map(Server::next_change).filter(|change| *change > now);
            let gives_up = pool.silent_since + self.settings.patience.0;
            let all_down = !pool.servers.iter().any(|server| server.answers(now));
            let gathered = pool.gathering(now).then_some(pool.started + GATHERING);
            changes.chain(gathered).chain((all_down && gives_up > now).then_some(gives_up)).min()
        })
    }

    /// Why the fleet is given up, if it is: no server has answered for longer than `patience`, and none is up.
    pub fn given_up(&self) -> Option<Error> {
        self.with(|pool, now| {
            let silent = now.duration_since(pool.silent_since);
            if silent < self.settings.patience.0 || pool.servers.iter().any(|server| server.answers(now)) {
                return None;
            }
            let troubles: Vec<_> = pool
                .servers
                .iter()
                .map(|server| format!("{} ({})", server.url, server.trouble().unwrap_or("no answer")))
                .collect();
            let message = format!(
                "no server has answered for {}: {}: start them and run the same command again",
                humantime::format_duration(Duration::from_secs(silent.as_secs())),
                troubles.join(", ")
            );
            Some(Error::new(ErrorKind::FixFleet, message))
        })
    }

    /// An answer of the server at `url` is in the output.
    pub fn accepted(&self, url: &str) {
        self.with(|pool, _| {
            if let Some(server) = pool.servers.iter_mut().find(|server| *server.url == *url) {
                server.counts.accepted += 1;
            }
        });
    }

    /// A record is asked again.
    pub fn count_retry(&self) {
        self.with(|pool, _| pool.retries += 1);
    }

    /// A record is not asked: its answer was in the journal.
    pub fn count_recovered(&self) {
        self.with(|pool, _| pool.recovered += 1);
    }

    /// Each server, as the client saw it up to now.
    pub fn report(&self) -> Vec<ServerReport> {
        self.with(|pool, now| pool.servers.iter().map(|server| report(server, now)).collect())
    }

    /// Sums over all servers, up to now.
    pub fn totals(&self) -> Totals {
        self.with(|pool, _| {
            let mut totals = Totals { retries: pool.retries, recovered: pool.recovered, ..Totals::default() };
            for server in &pool.servers {
                totals.requests += server.counts.requests;
                totals.in_flight += server.in_flight;
                totals.usage = totals.usage.plus(server.counts.usage);
            }
            totals
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Pool, Instant) -> T) -> T {
        look(&mut self.pool.lock().unwrap_or_else(PoisonError::into_inner), Instant::now())
    }
}

/// A server with the wrong model or the wrong key changes only when somebody restarts it.
const UNUSABLE_FOR: Duration = Duration::from_secs(60);

fn report(server: &Server, now: Instant) -> ServerReport {
    let busy = server.busy(now).as_secs_f64();
    let tokens = server.counts.usage.completion_tokens;
    ServerReport {
        url: Arc::clone(&server.url),
        requests: server.counts.requests,
        accepted: server.counts.accepted,
        completion_tokens: tokens,
        tokens_per_second: tokens.filter(|_| busy > 0.0).map(|tokens| tokens as f64 / busy),
        in_flight: server.in_flight,
        state: server.health(now),
        trouble: server.trouble().map(str::to_owned),
    }
}
