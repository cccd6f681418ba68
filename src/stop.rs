//! Who stops first: the one thing a signal changes.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How far stopping has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The run goes on.
    Running,
    /// Nothing new is read or sent; what flies may land until this instant.
    Draining(Instant),
}

/// Tells the run to stop. Dropping it changes nothing.
#[derive(Debug, Clone)]
pub struct Stopper(watch::Sender<Phase>);

/// What `read` and `dispatch` look at; all other stages only see the end of their input.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<Phase>);

impl Stopper {
    /// A run that goes on, and the way to stop it.
    pub fn new() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(Phase::Running);
        (Stopper(sender), Stop(receiver))
    }

    /// Stops reading and sending; what flies may land for `grace`. A second call can only shorten that.
    pub fn drain(&self, grace: Duration) {
        let until = Instant::now() + grace;
        self.0.send_modify(|phase| {
            *phase = match *phase {
                Phase::Draining(earlier) if earlier < until => Phase::Draining(earlier),
                _ => Phase::Draining(until),
            };
        });
    }
}

impl Stop {
    /// How far stopping has come.
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Whether nothing new is to be read or sent.
    pub fn draining(&self) -> bool {
        self.phase() != Phase::Running
    }

    /// Waits until the phase changes; for ever if nobody can change it any more.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until nothing new is to be read or sent.
    pub async fn draining_begins(&mut self) {
        while !self.draining() {
            self.changed().await;
        }
    }
}
