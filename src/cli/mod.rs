//! The commands, one file each. Nothing else in the program prints.

pub mod audit;
pub mod check;
pub mod file;
pub mod init;
mod progress;
pub mod run;
pub mod schema;
pub mod sim;

use crate::{
    error::{Error, ErrorKind},
    stage::Kinds,
};
use clap::{Parser, Subcommand};
use std::{
    error::Error as _,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

/// Regenerate LLM training datasets on your own inference servers.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, max_term_width = 100)]
pub struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Args),
    Check(check::Args),
    Audit(audit::Args),
    Init(init::Args),
    Schema(schema::Args),
    Sim(sim::Args),
}

/// The exit code of a run that was stopped and can be taken up again.
const RESUMABLE: u8 = 75;

/// Runs a command, with stages of these kinds.
///
/// The exit code is 0 (complete), 1 (failed), 2 (wrong command or pipeline file) or 75 (stopped; the same command
/// takes the run up again).
pub fn main(command: Command, kinds: &Kinds) -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FOREBAY_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,forebay=info"));
    // A program that embeds this one may have set up its own log before.
    let _already_set = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(progress::log_writer)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .try_init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            note(&format!("error: cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(async {
        match command.verb {
            Verb::Run(args) => run::run(args, kinds).await,
            Verb::Check(args) => check::run(&args, kinds).await,
            Verb::Audit(args) => audit::run(&args).await,
            Verb::Init(args) => init::run(&args, kinds),
            Verb::Schema(args) => schema::run(&args, kinds),
            Verb::Sim(args) => sim::run(args).await,
        }
    });
    // A thread that still waits for input must not hold the program back.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| {
        tell(&error);
        ExitCode::from(error.exit_code())
    })
}

/// Prints an error with the chain of its causes.
fn tell(error: &Error) {
    note(&format!("error: {error}"));
    let mut cause = error.source();
    while let Some(next) = cause {
        note(&format!("  because: {next}"));
        cause = next.source();
    }
}

/// Prints a line to standard error. If nobody reads it any more, there is nobody to tell.
fn note(line: &str) {
    let _unread = writeln!(io::stderr().lock(), "{line}");
}

/// Prints to standard output. A reader that has gone (`forebay schema | head`) has seen enough.
fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::FixMachine, "cannot write to standard output").because(cause))
        }
        _ => Ok(()),
    }
}
