//! One request, from sending to judgement, as a task of its own.

use super::Done;
use crate::{
    fleet::{Outcome, Terms, Transport, attempt},
    record::{Attempt, Completion, Record, Request},
    stage::Judge,
};
use std::sync::Arc;

/// One attempt and its judgement, run as a task.
pub(super) struct Task {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) server: Arc<str>,
    pub(super) terms: Arc<Terms>,
    pub(super) judge: Arc<Judge>,
    pub(super) request: Arc<Request>,
    pub(super) seed: u64,
    /// For the judge, if there is one.
    pub(super) copy: Option<Record>,
}

impl Task {
    pub(super) async fn run(self) -> Done {
        let landed = attempt(self.transport.as_ref(), &self.server, &self.request, self.seed, &self.terms).await;
        let objection = match (&landed.outcome, self.copy) {
            (Outcome::Answer(completion), Some(mut copy)) => {
                copy.attempts.push(trial(completion.clone(), &self.server, self.seed));
                self.judge.objection(copy)
            }
            _ => None,
        };
        Done::Asked { landed: Box::new(landed), objection }
    }
}

/// An attempt as the judge sees it: only the answer matters.
fn trial(completion: Completion, server: &Arc<str>, seed: u64) -> Attempt {
    Attempt {
        number: 0,
        server: Arc::clone(server),
        seed,
        started_ms: 0,
        seconds: 0.0,
        first_token_seconds: None,
        completion: Some(completion),
        fault: None,
        detail: String::new(),
        raw: bytes::Bytes::new(),
    }
}
