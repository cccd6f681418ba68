//! `forebay schema`: what can be written into a pipeline file.

use super::print;
use crate::{config, error::Error, stage::Kinds};
use std::process::ExitCode;

/// Print the JSON schema of pipeline files, for editors that check and complete them.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Print the reference for people instead, in Markdown.
    #[arg(long)]
    pub reference: bool,
}

/// Prints the schema or the reference.
pub fn run(args: &Args, kinds: &Kinds) -> Result<ExitCode, Error> {
    if args.reference {
        print(&config::reference(kinds))?;
    } else {
        print(&format!("{:#}\n", config::schema(kinds)))?;
    }
    Ok(ExitCode::SUCCESS)
}
