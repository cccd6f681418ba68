//! [`Error`]: why a run cannot go on.
//!
//! There is one kind per *what the reader has to do*, not per module that failed. A bad row or a bad answer is
//! never an `Error` (it is a [`Reason`](crate::record::Reason)); a mistake in the pipeline file is a
//! [`Diagnostic`](crate::diagnostic::Diagnostic); and a run that was stopped on request has simply ended.

use std::fmt;

/// Why a run cannot go on, and what to do about it.
///
/// `Display` says what happened and where; [`std::error::Error::source`] keeps the cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What the reader of an [`Error`] has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Change the command line.
    FixCommand,
    /// Change the pipeline file.
    FixPipeline,
    /// Change or replace the input data.
    FixInput,
    /// Make room, give permission or repair the store that is read from or written to.
    FixStore,
    /// Start, repair or replace inference servers.
    FixFleet,
    /// Free something on this machine: descriptors, ports, memory.
    FixMachine,
    /// Report a bug: Forebay broke a promise of its own.
    Bug,
}

impl Error {
    /// An error of `kind`; `message` is lowercase, without a full stop, and says what, where, and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), source: None }
    }

    /// The same error with the cause that led to it.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the reader has to do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The exit code of a program that ends with this error: 2 for a wrong command or pipeline file, else 1.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::FixCommand | ErrorKind::FixPipeline => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == ErrorKind::Bug {
            write!(f, "this is a bug in forebay, please report it: ")?;
        }
        write!(f, "{}", self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn the_exit_code_follows_from_what_the_reader_has_to_do() {
        assert_eq!(Error::new(ErrorKind::FixCommand, "x").exit_code(), 2);
        assert_eq!(Error::new(ErrorKind::FixPipeline, "x").exit_code(), 2);
        assert_eq!(Error::new(ErrorKind::FixInput, "x").exit_code(), 1);
        assert_eq!(Error::new(ErrorKind::Bug, "x").exit_code(), 1);
    }

    #[test]
    fn the_cause_is_kept_and_not_flattened() {
        let error = Error::new(ErrorKind::FixStore, "cannot write part-00000").because("disk full");
        assert_eq!(error.to_string(), "cannot write part-00000");
        assert_eq!(error.source().expect("a source").to_string(), "disk full");
    }
}
