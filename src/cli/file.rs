//! The pipeline file as it is named on a command line, for every command that takes one.

use super::note;
use crate::{
    config,
    diagnostic::Diagnostics,
    error::{Error, ErrorKind},
    pipeline::Plan,
    stage::Kinds,
};
use std::{io::IsTerminal, path::PathBuf};

/// A pipeline file, and what the command line changes in it.
#[derive(Debug, Clone, clap::Args)]
pub struct FileArgs {
    /// The pipeline file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Set a value of the file: `stage.template.max_tokens=8192`, `fleet.model=x`, `run=runs/second`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Larger files are no pipeline files, and are not read.
const FILE_BYTES: u64 = 4 << 20;

impl FileArgs {
    /// Reads the file. The outer error says that it cannot be read, the inner one what is wrong with it.
    pub fn load(&self, kinds: &Kinds) -> Result<Result<Plan, Diagnostics>, Error> {
        let name = self.file.display().to_string();
        let unreadable = |cause: std::io::Error| {
            let message = format!(
                "cannot read the pipeline file `{name}`: give the path of one, or make one with `forebay init`"
            );
            Error::new(ErrorKind::FixCommand, message).because(cause)
        };
        let size = std::fs::metadata(&self.file).map_err(unreadable)?.len();
        if size > FILE_BYTES {
            let message = format!("`{name}` is no pipeline file: it has {size} bytes, more than {FILE_BYTES}");
            return Err(Error::new(ErrorKind::FixCommand, message));
        }
        let text = std::fs::read_to_string(&self.file).map_err(unreadable)?;
        Ok(config::load(&text, &name, &self.set, kinds))
    }
}

/// Prints what is wrong with a file to standard error; in colour on a terminal that does not forbid it.
pub fn print_diagnostics(diagnostics: &Diagnostics) {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    note(diagnostics.render(colour).trim_end_matches('\n'));
}
