//! `forebay sim`: simulated inference servers, to try pipelines on before any GPU is paid for.

use super::print;
use crate::{
    Error, ErrorKind,
    sim::{Dialect, Fault, HttpServers, ReasoningField, SimSettings},
};
use serde::Deserialize;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// How long open replies may go on after Ctrl-C.
const GRACE: Duration = Duration::from_secs(1);

/// Run simulated inference servers until Ctrl-C.
///
/// They answer as SGLang or vLLM would, at the pace a real engine would have, with text that says it is simulated.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many servers to run.
    #[arg(long, default_value_t = 1)]
    pub servers: usize,
    /// The address they listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub host: IpAddr,
    /// The port of the first server, the others follow; 0: any free ports.
    #[arg(long, default_value_t = 30000)]
    pub port: u16,
    /// The name of the model they serve.
    #[arg(long)]
    pub model: Option<String>,
    /// Whose routes, bodies and metrics they speak.
    #[arg(long, value_enum, default_value_t = Dialect::Sglang)]
    pub dialect: Dialect,
    /// Tokens per second of one server with a very large batch.
    #[arg(long)]
    pub tokens_per_second: Option<f64>,
    /// The batch size at which half of that is reached.
    #[arg(long)]
    pub half_batch: Option<f64>,
    /// The speed of each server, 1 being ordinary: 1,1,0.78.
    #[arg(long, value_delimiter = ',')]
    pub speed: Vec<f64>,
    /// Requests a server runs at once.
    #[arg(long)]
    pub max_running: Option<usize>,
    /// Requests that may wait at a server; further ones are refused. Default: all wait.
    #[arg(long)]
    pub max_queued: Option<usize>,
    /// Tokens that prompt and answer may have together.
    #[arg(long)]
    pub context_length: Option<u32>,
    /// Mean length of an answer in tokens, thought included.
    #[arg(long)]
    pub mean_tokens: Option<f64>,
    /// Standard deviation of the logarithm of the length.
    #[arg(long)]
    pub sigma: Option<f64>,
    /// The model thinks before it answers (half of its tokens).
    #[arg(long)]
    pub thinking: bool,
    /// Where a thought is put. Default: where the dialect puts it.
    #[arg(long, value_enum)]
    pub reasoning_field: Option<ReasoningField>,
    /// How many seconds of the servers pass in one second.
    #[arg(long, default_value_t = 1.0)]
    pub time_scale: f64,
    /// Answer at once, whatever the speed.
    #[arg(long)]
    pub instant: bool,
    /// What all texts, lengths and faults are derived from.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// A TOML file of faults: `[[fault]]` tables.
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,
}

/// What a file of faults holds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    #[serde(default)]
    fault: Vec<Fault>,
}

/// Runs the servers until Ctrl-C.
///
/// # Errors
/// A value or a file of faults that makes no sense, or an address that cannot be had.
pub async fn run(args: Args) -> Result<ExitCode, Error> {
    let first = SocketAddr::new(args.host, args.port);
    let settings = settings(args)?;
    let (model, count) = (settings.model.clone(), settings.servers);
    let servers = HttpServers::start(settings, first).await.map_err(|error| {
        let what = format!("cannot listen on {count} ports from {first} on; choose another --port, or 0 for any");
        Error::new(ErrorKind::FixMachine, what).because(error)
    })?;
    let urls = servers.urls().join("\n");
    print(&format!("simulated servers of model {model:?}:\n{urls}\npress Ctrl-C to stop\n"))?;
    tokio::signal::ctrl_c()
        .await
        .map_err(|error| Error::new(ErrorKind::FixMachine, "cannot wait for Ctrl-C").because(error))?;
    servers.stop(GRACE).await;
    Ok(ExitCode::SUCCESS)
}

/// What the arguments say.
fn settings(args: Args) -> Result<SimSettings, Error> {
    let ordinary = SimSettings::default();
    let settings = SimSettings {
        servers: args.servers,
        model: args.model.unwrap_or(ordinary.model),
        dialect: args.dialect,
        tokens_per_second: args.tokens_per_second.unwrap_or(ordinary.tokens_per_second),
        half_batch: args.half_batch.unwrap_or(ordinary.half_batch),
        speeds: args.speed,
        max_running: args.max_running.unwrap_or(ordinary.max_running),
        max_queued: args.max_queued,
        context_length: args.context_length.unwrap_or(ordinary.context_length),
        mean_tokens: args.mean_tokens.unwrap_or(ordinary.mean_tokens),
        sigma: args.sigma.unwrap_or(ordinary.sigma),
        thinking_share: if args.thinking { ordinary.thinking_share } else { 0.0 },
        reasoning_field: args.reasoning_field,
        time_scale: args.time_scale,
        instant: args.instant,
        seed: args.seed,
        faults: args.faults.as_deref().map(read_faults).transpose()?.unwrap_or_default(),
        ..SimSettings::default()
    };
    match settings.complaints().first() {
        Some((key, why)) => Err(Error::new(ErrorKind::FixCommand, format!("{} {why}", key.replace('_', "-")))),
        None => Ok(settings),
    }
}

fn read_faults(path: &Path) -> Result<Vec<Fault>, Error> {
    let wrong =
        |what: &str| Error::new(ErrorKind::FixCommand, format!("cannot {what} the faults in {}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong("read").because(error))?;
    let file: FaultFile = toml::from_str(&text).map_err(|error| wrong("understand").because(error))?;
    Ok(file.fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<SimSettings, Error> {
        settings(Command::try_parse_from(line.split_whitespace()).expect("it parses").args)
    }

    #[test]
    fn the_command_line_becomes_settings() {
        let settings = parse(
            "sim --servers 7 --dialect vllm --tokens-per-second 2400 --speed 1,1,0.78 --time-scale 10 --thinking \
             --reasoning-field inline",
        )
        .expect("they are sound");
        assert_eq!((settings.servers, settings.dialect, settings.time_scale), (7, Dialect::Vllm, 10.0));
        assert_eq!((settings.speeds, settings.thinking_share), (vec![1.0, 1.0, 0.78], 0.5));
        assert_eq!(settings.reasoning_field, Some(ReasoningField::Inline));
        assert_eq!(parse("sim").expect("sound").thinking_share, 0.0);
    }

    #[test]
    fn a_wrong_value_is_named() {
        let error = parse("sim --time-scale 0").expect_err("no time would pass");
        assert_eq!((error.to_string().as_str(), error.exit_code()), ("time-scale must be more than 0", 2));
    }

    #[test]
    fn faults_come_from_a_file_and_a_wrong_one_is_explained() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("faults.toml");
        std::fs::write(&file, "[[fault]]\nkind = \"reset\"\nshare = 0.1\n").expect("it is written");
        let settings = parse(&format!("sim --faults {}", file.display())).expect("sound");
        assert_eq!(settings.faults.len(), 1);
        std::fs::write(&file, "[[fault]]\nkind = \"rest\"\n").expect("it is written");
        let error = parse(&format!("sim --faults {}", file.display())).expect_err("there is no such fault");
        assert!(error.to_string().contains("faults.toml"), "{error}");
    }
}
