//! Whose trouble a fault is, and how long to wait (pure).

use crate::record::{Family, Reason};
use std::time::Duration;

/// What is to be done with a record after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It is an answer: validation says whether it is good.
    Judge,
    /// Asked again, the same would come: set aside at once.
    Reject,
    /// The reply was broken: the record is asked again, a bounded number of times.
    RetryRecord,
    /// The server is in trouble: the record goes to another and loses nothing.
    RetryElsewhere {
        /// What kind of trouble.
        server: Trouble,
    },
    /// This machine is in trouble: nobody is charged.
    Local,
}

/// What is wrong with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It takes no more for now.
    Busy,
    /// It failed; it is down if it does so again and again.
    Failing,
    /// It is not there.
    Down,
    /// It is there, and of no use: another model, another key.
    Unusable,
}

/// What is to be done after a reply of this kind.
pub fn policy(reason: Reason) -> Policy {
    match reason {
        Reason::ContextOverflow | Reason::BadRequest => Policy::Reject,
        Reason::CutReply | Reason::ErrorInReply | Reason::BadReply | Reason::GarbledReply | Reason::Aborted => {
            Policy::RetryRecord
        }
        Reason::Overloaded => Policy::RetryElsewhere { server: Trouble::Busy },
        Reason::ServerError | Reason::Stalled | Reason::ConnectionLost => {
            Policy::RetryElsewhere { server: Trouble::Failing }
        }
        Reason::Unreachable | Reason::Loading => Policy::RetryElsewhere { server: Trouble::Down },
        Reason::Unauthorized | Reason::UnknownModel => Policy::RetryElsewhere { server: Trouble::Unusable },
        Reason::LocalTrouble => Policy::Local,
        other => match other.family() {
            Family::Answer => Policy::Judge,
            Family::Input | Family::Row | Family::Reply => Policy::Reject,
        },
    }
}

/// Whether an answer that was rejected for this reason may turn out better with another seed. One that ran into
/// `max_tokens` would most likely run into it again, and costs the most tokens of all; what is wrong with the row stays
/// wrong.
pub fn may_differ(reason: Reason) -> bool {
    reason.family() == Family::Answer && !matches!(reason, Reason::Truncated | Reason::TruncatedThinking)
}

/// The first rest of a server in trouble; each further failure doubles it.
const FIRST_REST: Duration = Duration::from_millis(500);

/// No rest is longer, whatever a server asks for.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// How long to leave a server alone after `failures` earlier ones in a row: exponential, spread over the upper half of
/// its range by `spread` (any number) so that servers are not probed in step. What the server asked for is honoured,
/// up to the longest rest.
pub fn backoff(failures: u32, asked: Option<Duration>, spread: u64) -> Duration {
    let whole = FIRST_REST.saturating_mul(1 << failures.min(16)).min(LONGEST_REST);
    let share = (spread % 1_000) as u32;
    let jittered = whole / 2 + whole / 2 * share / 1_000;
    jittered.max(asked.unwrap_or_default()).min(LONGEST_REST)
}

/// A `Retry-After` header: seconds, or an HTTP date (RFC 9110, section 10.2.3). A date is not looked up against a clock
/// that may differ from the server's: it asks for the longest rest.
pub fn retry_after(header: &str) -> Option<Duration> {
    let header = header.trim();
    match header.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => {
            Some(Duration::from_secs_f64(seconds.min(LONGEST_REST.as_secs_f64())))
        }
        Ok(_) => None,
        Err(_) => header.ends_with("GMT").then_some(LONGEST_REST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_judged_a_row_rejected_and_a_server_left_alone() {
        for reason in Reason::ALL {
            let policy = policy(*reason);
            match reason.family() {
                Family::Answer => assert_eq!(policy, Policy::Judge, "{reason}"),
                Family::Input | Family::Row => assert_eq!(policy, Policy::Reject, "{reason}"),
                Family::Reply => assert_ne!(policy, Policy::Judge, "{reason}"),
            }
        }
    }

    #[test]
    fn only_what_a_new_seed_can_change_is_asked_again() {
        assert!(may_differ(Reason::Refusal) && may_differ(Reason::Degenerate));
        for reason in [Reason::Truncated, Reason::TruncatedThinking, Reason::NoReference, Reason::FilteredOut] {
            assert!(!may_differ(reason), "{reason}");
        }
    }

    #[test]
    fn rests_grow_up_to_a_limit_and_a_server_may_ask_for_longer() {
        let rests: Vec<_> = (0..12).map(|failures| backoff(failures, None, 999)).collect();
        assert!(rests.windows(2).all(|pair| pair[0] <= pair[1]), "{rests:?}");
        assert!(rests[0] < Duration::from_millis(501) && rests[11] > Duration::from_secs(59), "{rests:?}");
        assert_eq!(backoff(0, retry_after("7"), 0), Duration::from_secs(7));
        assert_eq!(backoff(0, retry_after("99999"), 0), LONGEST_REST);
        assert_eq!(retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), Some(LONGEST_REST));
        assert_eq!(retry_after("soon"), None);
        assert_eq!(retry_after("-1"), None);
        assert_eq!(retry_after("NaN"), None);
    }
}
