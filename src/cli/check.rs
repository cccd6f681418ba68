//! `forebay check`: is the file right, what would be run, and are the servers there?

use super::{
    file::{FileArgs, print_diagnostics},
    print,
};
use crate::{
    config::settings_beyond_defaults,
    error::{Error, ErrorKind},
    fleet::{Fleet, FleetSettings, Health, probe},
    pipeline::Plan,
    setting::Size,
    stage::Kinds,
};
use std::{process::ExitCode, sync::Arc};
use tokio::task::JoinSet;

/// Check a pipeline file and show what it would run. Nothing is written, and no server is asked unless you say so.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment would replace the command's own help")]
    pub file: FileArgs,
    /// Ask each server as well: is it there, does it serve the model, does it make a token?
    #[arg(long)]
    pub servers: bool,
}

/// Prints the plan (exit code 0) or everything that is wrong with the file (2); with `--servers`, also what each
/// server says (1 if one of them cannot be used).
pub async fn run(args: &Args, kinds: &Kinds) -> Result<ExitCode, Error> {
    let plan = match args.file.load(kinds)? {
        Ok(plan) => plan,
        Err(diagnostics) => {
            print_diagnostics(&diagnostics);
            return Ok(ExitCode::from(2));
        }
    };
    print(&picture(&plan))?;
    match &plan.fleet {
        Some(settings) if args.servers => ask(settings).await,
        None if args.servers => {
            Err(Error::new(ErrorKind::FixCommand, "this pipeline asks no servers: leave out --servers"))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Probes every server, and prints what came of it.
async fn ask(settings: &FleetSettings) -> Result<ExitCode, Error> {
    if settings.simulated.is_some() {
        print("The servers are simulated: they are started by `run`.\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let (transport, fleet) = (super::run::transport(settings)?, Arc::new(Fleet::new(settings.clone())));
    let mut probes = JoinSet::new();
    while let Some((server, url)) = fleet.take_probe() {
        let (transport, fleet) = (Arc::clone(&transport), Arc::clone(&fleet));
        probes.spawn(async move {
            let result = probe(transport.as_ref(), &url, &fleet).await;
            fleet.probed(server, result);
        });
    }
    probes.join_all().await;
    let report = fleet.report();
    for server in &report {
        print(&format!("{}  {}  {}\n", server.url, server.state, server.trouble.as_deref().unwrap_or_default()))?;
    }
    let all_up = report.iter().all(|server| server.state == Health::Up);
    Ok(if all_up { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plan as a picture of its chain: the stages from top to bottom with the settings that are not as they are by
/// default, the room on each edge, and the ways round.
pub fn picture(plan: &Plan) -> String {
    let mut text = format!("{}  in {}\n", plan.name, plan.run);
    text.push_str(&format!("seed {}, up to {} of rows in flight\n\n", plan.seed, Size(u64::from(plan.memory))));
    if let Some(fleet) = &plan.fleet {
        text.push_str(&servers(fleet));
    }
    let lanes = Lanes::of(plan);
    let widest = plan.stages.iter().map(|stage| stage.name.chars().count()).max().unwrap_or(0);
    for (at, stage) in plan.stages.iter().enumerate() {
        let mut about = settings_beyond_defaults(stage);
        if stage.name != stage.kind.name {
            about.insert(0, format!("({})", stage.kind.name));
        }
        if stage.workers > 1 {
            about.push(format!("{} workers", stage.workers));
        }
        let row = format!("{}{:widest$}   {}", lanes.at_stage(at), stage.name, about.join(", "));
        text.push_str(row.trim_end());
        text.push('\n');
        if at + 1 < plan.stages.len() {
            text.push_str(&format!("{}│ {}\n", lanes.below_stage(at), stage.capacity));
        }
    }
    text.push_str("\nWhat a stage rejects is set aside, with its reason, in the directory of the run.\n");
    match plan.tests {
        0 => {}
        1 => text.push_str("1 test passes.\n"),
        tests => text.push_str(&format!("{tests} tests pass.\n")),
    }
    text
}

fn servers(fleet: &FleetSettings) -> String {
    let urls = fleet.urls();
    let count = match (urls.len(), &fleet.simulated) {
        (_, Some(_)) => "simulated servers".to_owned(),
        (1, None) => "1 server".to_owned(),
        (n, None) => format!("{n} servers"),
    };
    let mut text = format!("fleet  {}, {count}, up to {} requests at once on each\n", fleet.model, fleet.concurrency);
    for url in urls {
        text.push_str(&format!("       {url}\n"));
    }
    text.push('\n');
    text
}

/// The ways round, each in a lane of its own to the left of the chain.
struct Lanes(Vec<(usize, usize)>);

impl Lanes {
    fn of(plan: &Plan) -> Self {
        Lanes(plan.stages.iter().enumerate().filter_map(|(at, stage)| Some((at, stage.around?))).collect())
    }

    /// What stands left of a stage: lanes that begin, end, or go by.
    fn at_stage(&self, at: usize) -> String {
        let mut row = self.empty();
        for (lane, (from, to)) in self.0.iter().enumerate() {
            let corner = match at {
                at if at == *from => '╭',
                at if at == *to => '╰',
                at if *from < at && at < *to => {
                    cross(&mut row, lane * 2, '│');
                    continue;
                }
                _ => continue,
            };
            row.iter_mut().skip(lane * 2).take(1).for_each(|cell| *cell = corner);
            let width = row.len();
            (lane * 2 + 1..width.saturating_sub(1)).for_each(|column| cross(&mut row, column, '─'));
            if corner == '╰' {
                row.iter_mut().rev().skip(1).take(1).for_each(|cell| *cell = '▸');
            }
        }
        row.into_iter().collect()
    }

    /// What stands left of the edge behind a stage.
    fn below_stage(&self, at: usize) -> String {
        let mut row = self.empty();
        for (lane, (from, to)) in self.0.iter().enumerate() {
            if (*from..*to).contains(&at) {
                cross(&mut row, lane * 2, '│');
            }
        }
        row.into_iter().collect()
    }

    fn empty(&self) -> Vec<char> {
        let width = if self.0.is_empty() { 0 } else { self.0.len() * 2 + 2 };
        vec![' '; width + 2]
    }
}

/// Draws a line through a cell, across the one that may be there.
fn cross(row: &mut [char], column: usize, line: char) {
    if let Some(cell) = row.get_mut(column) {
        *cell = match *cell {
            ' ' => line,
            same if same == line => line,
            '│' | '─' => '┼',
            other => other,
        };
    }
}
