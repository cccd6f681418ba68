//! `forebay audit`: what is in a dataset.

use super::print;
use crate::{
    audit::Audit,
    error::{Error, ErrorKind},
    format::{Limits, Rows},
    setting::Size,
    store::Place,
};
use std::process::ExitCode;

/// See what is in a dataset before money is spent on it: rows, shapes, empty answers, duplicates, lengths.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  forebay audit 'data/*.jsonl.zst'")]
pub struct Args {
    /// Files, patterns or URLs: JSONL or a JSON array, plain, gzip or zstd.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// A longer line is counted, not read.
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    max_line_bytes: Size,
}

/// Reads the files and prints what is in them.
pub async fn run(args: &Args) -> Result<ExitCode, Error> {
    let mut audit = Audit::default();
    let limits = Limits { max_line_bytes: args.max_line_bytes.0 };
    for path in &args.files {
        for file in Place::inputs(path).await? {
            let reader = file.open().await?;
            let name = std::sync::Arc::clone(&file.name);
            let read = move || {
                let unreadable = |error| Error::new(ErrorKind::FixInput, format!("{name}: {error}"));
                let mut rows = Rows::open(reader, limits).map_err(unreadable)?;
                rows.by_ref().for_each(|framed| audit.row(&name, &framed));
                if let Err(error) = rows.finish() {
                    audit.broke_off(format!("{name}: {error}"));
                }
                Ok(audit)
            };
            let task = tokio::task::spawn_blocking(read);
            audit = task.await.map_err(|panic| Error::new(ErrorKind::Bug, "the reader panicked").because(panic))??;
        }
    }
    if audit.rows == 0 && audit.problems.is_empty() {
        return Err(Error::new(ErrorKind::FixInput, "there are no rows: check the paths"));
    }
    if args.json {
        print(&format!("{:#}\n", serde_json::to_value(&audit).unwrap_or_default()))?;
    } else {
        print(&audit.report())?;
    }
    Ok(ExitCode::SUCCESS)
}
