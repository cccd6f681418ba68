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
    /// Print what the words mean that say why a row was set aside, in Markdown.
    #[arg(long, conflicts_with = "reference")]
    pub words: bool,
}

/// Prints the schema, the reference or the words.
pub fn run(args: &Args, kinds: &Kinds) -> Result<ExitCode, Error> {
    if args.reference {
        print(&config::reference(kinds))?;
    } else if args.words {
        print(&config::words())?;
    } else {
        print(&format!("{:#}\n", config::schema(kinds)))?;
    }
    Ok(ExitCode::SUCCESS)
}
