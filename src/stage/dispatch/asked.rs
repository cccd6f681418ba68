//! A record that is being asked, and what comes next for it (pure).

use crate::{
    edge::Route,
    fleet::{
        Landed, Outcome,
        retry::{self, Policy, Trouble},
    },
    record::{Attempt, Record, Rejection},
};
use std::sync::Arc;

/// A record that is being asked, and what it has cost so far.
pub(super) struct Asked {
    pub(super) record: Record,
    /// What it is asked, as a hash.
    pub(super) request: u64,
    /// Attempts started; numbers the next one and gives it its seed.
    pub(super) attempts: u32,
    /// The server of the last attempt, to be avoided.
    pub(super) avoid: Option<usize>,
    /// Answers the judge sent back.
    judged: u32,
    /// Broken replies.
    broken: u32,
    /// Servers that failed under it.
    moved: u32,
}

/// How much a record may cost.
pub(super) struct Bounds {
    /// Broken replies.
    pub(super) tries: u32,
    /// Servers that fail under it.
    pub(super) moves: u32,
    /// Further answers after one that the judge sent back.
    pub(super) retries: u32,
}

/// What was sent, and where.
pub(super) struct Sent {
    pub(super) server: usize,
    pub(super) url: Arc<str>,
    pub(super) seed: u64,
    pub(super) started_ms: u64,
}

/// What comes next for a record whose attempt has landed.
pub(super) enum Next {
    /// It leaves.
    Leave(Route),
    /// It is asked again.
    Again(Asked),
}

impl Asked {
    pub(super) fn new(record: Record, request: u64) -> Asked {
        Asked { record, request, attempts: 0, avoid: None, judged: 0, broken: 0, moved: 0 }
    }

    /// What comes next, after an attempt that came to `landed`: `policy` says whose trouble a fault is, `objection` what
    /// the judge has against an answer.
    pub(super) fn next(
        mut self,
        sent: Sent,
        landed: Landed,
        policy: Policy,
        objection: Option<Rejection>,
        bounds: &Bounds,
    ) -> Next {
        let mut taken = Attempt {
            number: self.attempts - 1,
            server: sent.url,
            seed: sent.seed,
            started_ms: sent.started_ms,
            seconds: landed.took.as_secs_f64(),
            first_token_seconds: landed.first_token.map(|first| first.as_secs_f64()),
            completion: None,
            fault: None,
            detail: String::new(),
            raw: landed.raw,
        };
        let fault = match landed.outcome {
            Outcome::Answer(completion) => {
                taken.completion = Some(completion);
                self.record.attempts.push(taken);
                return match objection {
                    Some(rejection) if self.judged < bounds.retries && retry::may_differ(rejection.reason) => {
                        self.judged += 1;
                        self.avoid = Some(sent.server);
                        Next::Again(self)
                    }
                    _ => Next::Leave(Route::Pass(self.record)),
                };
            }
            Outcome::Fault(fault) => fault,
        };
        taken.fault = Some(fault.reason);
        taken.detail = fault.detail.clone();
        self.record.attempts.push(taken);
        self.avoid = Some(sent.server);
        let rejection = Rejection::new(fault.reason, fault.detail);
        match policy {
            Policy::Judge | Policy::Reject => return Next::Leave(Route::Aside(self.record, rejection)),
            Policy::RetryRecord => self.broken += 1,
            // A server that is full, or was not there, has not failed under the record.
            Policy::RetryElsewhere { server: Trouble::Busy | Trouble::Down } | Policy::Local => {}
            Policy::RetryElsewhere { .. } => self.moved += 1,
        }
        if self.broken >= bounds.tries || self.moved >= bounds.moves {
            return Next::Leave(Route::Aside(self.record, rejection));
        }
        Next::Again(self)
    }

    /// Whether as many servers have failed under the record as half of those it may take down.
    pub(super) fn is_suspect(&self, bounds: &Bounds) -> bool {
        self.moved >= bounds.moves.div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fleet::Fault,
        record::{Completion, Reason},
    };
    use std::time::Duration;

    const BOUNDS: Bounds = Bounds { tries: 3, moves: 4, retries: 2 };

    fn landed(outcome: Outcome) -> Landed {
        Landed { outcome, raw: bytes::Bytes::new(), took: Duration::from_secs(1), first_token: None, broke_off: false }
    }

    fn sent(server: usize) -> Sent {
        Sent { server, url: "http://a".into(), seed: 7, started_ms: 0 }
    }

    /// Lets the same thing happen until the record leaves: how often it was asked, and how it left.
    fn until_it_leaves(outcome: &Outcome, policy: Policy, objection: Option<Reason>) -> (u32, Option<Reason>) {
        let mut asked = Asked::new(Record::unbound("{}"), 0);
        for _ in 0..100 {
            asked.attempts += 1;
            let objection = objection.map(Rejection::from);
            match asked.next(sent(1), landed(outcome.clone()), policy, objection, &BOUNDS) {
                Next::Again(again) => {
                    assert_eq!(again.avoid, Some(1), "the server it was at is the last choice");
                    asked = again;
                }
                Next::Leave(Route::Pass(record)) => return (record.attempts.len() as u32, None),
                Next::Leave(Route::Aside(record, rejection)) => {
                    return (record.attempts.len() as u32, Some(rejection.reason));
                }
                Next::Leave(Route::Around(_)) => panic!("nothing goes round"),
            }
        }
        (100, None)
    }

    #[test]
    fn an_answer_is_asked_again_as_often_as_the_judge_may_object() {
        let answer = Outcome::Answer(Completion::default());
        assert_eq!(until_it_leaves(&answer, Policy::Judge, None), (1, None));
        assert_eq!(until_it_leaves(&answer, Policy::Judge, Some(Reason::Degenerate)), (3, None));
        assert_eq!(
            until_it_leaves(&answer, Policy::Judge, Some(Reason::Truncated)),
            (1, None),
            "it would be cut again"
        );
    }

    #[test]
    fn each_fault_costs_whose_it_is_and_ends_somewhere() {
        let fault = |reason| Outcome::Fault(Fault { reason, detail: String::new(), retry_after: None });
        for (reason, times) in
            [(Reason::BadRequest, 1), (Reason::CutReply, BOUNDS.tries), (Reason::ServerError, BOUNDS.moves)]
        {
            assert_eq!(until_it_leaves(&fault(reason), retry::policy(reason), None), (times, Some(reason)));
        }
        for free in [Reason::Overloaded, Reason::Unreachable, Reason::LocalTrouble] {
            assert_eq!(
                until_it_leaves(&fault(free), retry::policy(free), None).0,
                100,
                "{free} costs the record nothing"
            );
        }
    }
}
