//! The fleet: who is asked, how often, and what a reply means.

mod transport;

pub use transport::{Call, Reply, Transport, TransportError};

/// The inference servers of a run.
#[derive(Debug)]
pub struct Fleet;
