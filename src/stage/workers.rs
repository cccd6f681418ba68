//! Runs a [`Transform`] as a [`Stage`] on n workers.

use super::{Ended, Stage, Transform};
use crate::{
    edge::{Closed, Inlet, Outlet},
    error::{Error, ErrorKind},
    record::End,
};
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::task::JoinSet;

/// A [`Transform`] and how many tasks share its work. They share one inlet; edges promise no order.
pub struct Workers {
    transform: Arc<dyn Transform>,
    count: usize,
}

impl Workers {
    /// `count` workers (at least one) that apply `transform`.
    pub fn new(transform: Arc<dyn Transform>, count: usize) -> Self {
        Workers { transform, count: count.max(1) }
    }
}

impl Stage for Workers {
    fn run(self: Box<Self>, inlet: Inlet, outlet: Outlet) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            let mut workers = JoinSet::new();
            for _ in 0..self.count {
                workers.spawn(work(Arc::clone(&self.transform), inlet.clone(), outlet.clone()));
            }
            drop((inlet, outlet));
            let mut ended = Ended::Drained;
            while let Some(joined) = workers.join_next().await {
                match joined {
                    Ok(Ended::Drained) => {}
                    Ok(other) => ended = other,
                    Err(panic) => {
                        return Ended::Failed(Error::new(ErrorKind::Bug, "a stage panicked").because(panic));
                    }
                }
            }
            ended
        })
    }
}

async fn work(transform: Arc<dyn Transform>, inlet: Inlet, outlet: Outlet) -> Ended {
    while let Some(record) = inlet.next().await {
        if let Err(Closed(record)) = outlet.send(transform.apply(record)).await {
            record.ticket.tell(End::Remaining);
            return Ended::DownstreamClosed;
        }
        // A transform never waits by itself: without this, one that has input and room holds its thread for good.
        tokio::task::consume_budget().await;
    }
    Ended::Drained
}
