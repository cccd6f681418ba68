//! `forebay init`: a first pipeline file.

use super::print;
use crate::{
    config::starter,
    error::{Error, ErrorKind},
    stage::Kinds,
};
use std::{io::Write, path::PathBuf, process::ExitCode};

/// Write a commented pipeline file to begin with. An existing file is never overwritten.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Where to write it; `-` prints it.
    #[arg(value_name = "FILE", default_value = "pipeline.toml")]
    pub file: PathBuf,
}

/// Writes or prints the file.
pub fn run(args: &Args, kinds: &Kinds) -> Result<ExitCode, Error> {
    let text = starter(kinds);
    if args.file.as_os_str() == "-" {
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.file.display();
    let written = std::fs::File::create_new(&args.file).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|cause| match cause.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Error::new(ErrorKind::FixCommand, format!("`{name}` exists and is not overwritten: give another name"))
        }
        _ => Error::new(ErrorKind::FixCommand, format!("cannot write `{name}`: give a path that can be written"))
            .because(cause),
    })?;
    print(&format!("wrote {name}: change it to your liking, then run `forebay check {name}`\n"))?;
    Ok(ExitCode::SUCCESS)
}
