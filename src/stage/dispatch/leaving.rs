//! Records that wait for room in the outlet, while answers that come meanwhile are taken in.

use crate::edge::{Closed, Outlet, Route};
use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use std::collections::VecDeque;

/// A queue in front of the outlet. One record at a time waits there, so that the time without room is booked once.
#[derive(Default)]
pub(super) struct Leaving {
    /// At most one; it is kept here and not in a `select!`, which would drop it with its record.
    sending: FuturesUnordered<BoxFuture<'static, Result<(), Closed>>>,
    waiting: VecDeque<Route>,
}

impl Leaving {
    pub(super) fn is_empty(&self) -> bool {
        self.sending.is_empty()
    }

    pub(super) fn push(&mut self, route: Route, outlet: &Outlet) {
        if self.sending.is_empty() {
            self.send(route, outlet);
        } else {
            self.waiting.push_back(route);
        }
    }

    /// What came of the next record to go; `None` if there is none. Cancel safe.
    pub(super) async fn next(&mut self, outlet: &Outlet) -> Option<Result<(), Closed>> {
        let sent = self.sending.next().await?;
        if let Some(route) = self.waiting.pop_front() {
            self.send(route, outlet);
        }
        Some(sent)
    }

    fn send(&self, route: Route, outlet: &Outlet) {
        let outlet = outlet.clone();
        self.sending.push(Box::pin(async move { outlet.send(route).await }));
    }
}
