//! Where files are: this machine or an object store.

/// The directory of one run.
#[derive(Debug)]
pub struct RunDir;
