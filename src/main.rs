//! The `forebay` program: a command line, and an exit code.

use clap::Parser;
use forebay::{cli, stage::Kinds};
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(cli::Command::parse(), &Kinds::builtin())
}
