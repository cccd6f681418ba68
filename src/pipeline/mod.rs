//! How a plan becomes a run, and what a run says at its end.

/// Whether the run is to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop;
