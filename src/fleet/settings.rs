//! [`FleetSettings`]: what a user writes about the inference servers.

use crate::{
    setting::{Complaints, Duration, Secret},
    sim::SimSettings,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, num::NonZeroU32};
use url::Url;

/// The inference servers of a pipeline, and the model they serve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetSettings {
    /// Base URLs of servers that speak the OpenAI API (SGLang, vLLM, llama.cpp), without `/v1`. A range in braces
    /// stands for several servers: `http://gpu:{30000..30006}` are seven, `http://{a,b}:8000` two.
    #[serde(default)]
    #[schemars(extend("x-content" = false))]
    pub servers: Vec<String>,

    /// The model to ask for, as the servers call it. It is checked against what they say they serve.
    pub model: String,

    /// Other names under which servers may serve the same model.
    #[serde(default)]
    #[schemars(extend("x-content" = false))]
    pub accept_models: Vec<String>,

    /// The key that is sent to the servers as `Authorization: Bearer …`: `{ env = "NAME" }` or `{ file = "path" }`.
    #[serde(default)]
    #[schemars(extend("x-content" = false))]
    pub api_key: Option<Secret>,

    /// How many requests a server gets at once, at most. How many it really gets is learnt from how fast it answers.
    #[serde(default = "concurrency")]
    #[schemars(range(min = 1, max = 4096), extend("x-content" = false))]
    pub concurrency: NonZeroU32,

    /// How long making a connection may take.
    #[serde(default = "connect_timeout")]
    #[schemars(extend("x-content" = false))]
    pub connect_timeout: Duration,

    /// How long a server may send nothing in the middle of a streamed reply before the attempt is given up. A reply
    /// that is not streamed says nothing until it is whole: it gets twelve times as long.
    #[serde(default = "stall_timeout")]
    #[schemars(extend("x-content" = false))]
    pub stall_timeout: Duration,

    /// How long an unused connection is kept. Keep it below the servers' own limit, or a request now and then meets
    /// a connection that is just being closed: uvicorn, which SGLang and vLLM run on, closes after 5 seconds.
    #[serde(default = "idle_timeout")]
    #[schemars(extend("x-content" = false))]
    pub idle_timeout: Duration,

    /// How long to wait for a server to come back when all of them are down, before the run stops (it can be
    /// resumed).
    #[serde(default = "patience")]
    #[schemars(extend("x-content" = false))]
    pub patience: Duration,

    /// Settings of servers that are started inside this process instead of `servers`, to try a pipeline without a
    /// GPU.
    #[serde(default)]
    #[schemars(extend("x-content" = false))]
    pub simulated: Option<SimSettings>,
}

/// How much longer than [`FleetSettings::stall_timeout`] a reply may take that is not streamed.
pub const UNSTREAMED_FACTOR: u32 = 12;

/// More servers than this are a typing mistake in a range.
const MOST_SERVERS: usize = 1024;

/// More ranges than this in one URL are not spelt out.
const MOST_BRACES: usize = 8;

fn concurrency() -> NonZeroU32 {
    NonZeroU32::new(32).unwrap_or(NonZeroU32::MIN)
}

fn connect_timeout() -> Duration {
    Duration::seconds(5)
}

fn stall_timeout() -> Duration {
    Duration::seconds(5 * 60)
}

fn idle_timeout() -> Duration {
    Duration::seconds(4)
}

fn patience() -> Duration {
    Duration::seconds(15 * 60)
}

impl FleetSettings {
    /// A fleet of these servers, with everything else as it is by default.
    pub fn new(model: impl Into<String>, servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        FleetSettings {
            servers: servers.into_iter().map(Into::into).collect(),
            model: model.into(),
            accept_models: Vec::new(),
            api_key: None,
            concurrency: concurrency(),
            connect_timeout: connect_timeout(),
            stall_timeout: stall_timeout(),
            idle_timeout: idle_timeout(),
            patience: patience(),
            simulated: None,
        }
    }

    /// The base URL of each server, ranges expanded, without a slash at the end. What [`FleetSettings::check`]
    /// complains about is left out.
    pub fn urls(&self) -> Vec<String> {
        let texts = self.servers.iter().flat_map(|text| expand(text).unwrap_or_default());
        texts.filter_map(|text| base_url(&text).ok()).collect()
    }

    /// Says everything that is wrong with the values, beyond their types.
    pub fn check(&self, say: &mut Complaints) {
        match (self.servers.is_empty(), &self.simulated) {
            (true, None) => {
                say.about("servers", "the fleet has no servers: name them in `servers`, or set `simulated`")
            }
            (false, Some(_)) => say.about("simulated", "`servers` and `simulated` exclude one another: leave one out"),
            _ => {}
        }
        for (key, complaint) in self.simulated.iter().flat_map(SimSettings::complaints) {
            say.about(&format!("simulated.{key}"), complaint);
        }
        if self.model.trim().is_empty() {
            say.about("model", "`model` is empty: give the name the servers serve the model under");
        }
        self.check_servers(say);
        if let Some(Err(complaint)) = self.api_key.as_ref().map(Secret::read) {
            say.about("api_key", complaint);
        }
        for (key, value) in [
            ("connect_timeout", self.connect_timeout),
            ("stall_timeout", self.stall_timeout),
            ("idle_timeout", self.idle_timeout),
        ] {
            if value.0.is_zero() {
                say.about(key, format!("`{key}` must be longer than nothing"));
            }
        }
    }

    fn check_servers(&self, say: &mut Complaints) {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (index, text) in self.servers.iter().enumerate() {
            let key = format!("servers.{index}");
            let urls =
                expand(text).and_then(|texts| texts.iter().map(|text| base_url(text)).collect::<Result<Vec<_>, _>>());
            match urls {
                Err(complaint) => say.about(&key, complaint),
                Ok(urls) => {
                    let doubled = urls.into_iter().find(|url| seen.insert(url.clone(), index).is_some());
                    if let Some(url) = doubled {
                        say.about(&key, format!("the server `{url}` is named twice: each one gets one entry"));
                    }
                }
            }
        }
        if seen.len() > MOST_SERVERS {
            say.about(
                "servers",
                format!("these are {} servers, more than {MOST_SERVERS}: is a range mistyped?", seen.len()),
            );
        }
    }
}

/// The texts that `text` stands for: `{1..3}` and `{a,b}` spelt out, from the left.
fn expand(text: &str) -> Result<Vec<String>, String> {
    if text.matches('{').count() > MOST_BRACES {
        return Err(format!("these are more than {MOST_BRACES} ranges in one URL"));
    }
    let Some((before, rest)) = text.split_once('{') else { return Ok(vec![text.to_owned()]) };
    let Some((inside, after)) = rest.split_once('}') else { return Err("a `{` is not closed".to_owned()) };
    let choices: Vec<String> = match inside.split_once("..") {
        None => inside.split(',').map(|choice| choice.trim().to_owned()).collect(),
        Some((from, to)) => match (from.trim().parse::<u32>(), to.trim().parse::<u32>()) {
            (Ok(from), Ok(to)) if from <= to && ((to - from) as usize) < MOST_SERVERS => {
                (from..=to).map(|number| number.to_string()).collect()
            }
            (Ok(from), Ok(to)) if from <= to => {
                return Err(format!("`{{{inside}}}` is more than {MOST_SERVERS} servers"));
            }
            _ => return Err(format!("`{{{inside}}}` is no range: write `{{30000..30006}}`, the smaller number first")),
        },
    };
    let tails = expand(after)?;
    if choices.len() * tails.len() > MOST_SERVERS {
        return Err(format!("these are more than {MOST_SERVERS} servers"));
    }
    Ok(choices.iter().flat_map(|choice| tails.iter().map(move |tail| format!("{before}{choice}{tail}"))).collect())
}

/// The URL in its one spelling, without a slash at the end; or why it is none, without showing a password.
fn base_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("this is no URL ({error}): write `http://host:port`"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL must not hold a user or password: use `api_key`".to_owned());
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!(
            "a server is reached by http or https, not by `{}`: write `http://host:port`",
            url.scheme()
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("a server's base URL has no `?` or `#`".to_owned());
    }
    let base = url.as_str().trim_end_matches('/');
    Ok(base.strip_suffix("/v1").unwrap_or(base).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(fleet: &FleetSettings) -> Vec<(String, String)> {
        let mut say = Complaints::default();
        fleet.check(&mut say);
        say.into_iter().collect()
    }

    #[test]
    fn ranges_and_lists_stand_for_several_servers() {
        let fleet = FleetSettings::new("m", ["http://127.0.0.1:{30000..30002}/", "https://{a,b}:8{0,1}/v1"]);
        let urls = fleet.urls();
        assert_eq!(urls[..3], ["http://127.0.0.1:30000", "http://127.0.0.1:30001", "http://127.0.0.1:30002"]);
        assert_eq!(urls[3..], ["https://a:80", "https://a:81", "https://b:80", "https://b:81"]);
        assert!(complaints(&fleet).is_empty());
    }

    #[test]
    fn each_wrong_server_is_named_by_its_place() {
        let fleet = FleetSettings::new(
            "m",
            [
                "http://a:1",
                "ftp://a:2",
                "http://u:secret@a:3",
                "http://a:{1..1}",
                "a:4",
                "http://a:{5..",
                "http://a:{9..1}",
            ],
        );
        let said = complaints(&fleet);
        let keys: Vec<&str> = said.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["servers.1", "servers.2", "servers.3", "servers.4", "servers.5", "servers.6"]);
        assert!(said[1].1.contains("api_key") && !said[1].1.contains("secret"), "{said:?}");
        assert!(said[2].1.contains("named twice"), "{said:?}");
    }

    #[test]
    fn servers_and_simulated_exclude_one_another_and_one_is_needed() {
        let mut fleet = FleetSettings::new("m", ["http://a:1"]);
        fleet.simulated = Some(SimSettings::default());
        assert_eq!(complaints(&fleet)[0].0, "simulated");
        fleet.servers.clear();
        assert!(complaints(&fleet).is_empty());
        fleet.simulated = None;
        assert_eq!(complaints(&fleet)[0].0, "servers");
    }

    #[test]
    fn a_range_with_too_many_servers_is_refused_before_it_is_spelt_out() {
        for text in ["http://a:{0..4000000000}", "http://{0..999}:{0..999}"] {
            assert!(complaints(&FleetSettings::new("m", [text]))[0].1.contains("more than 1024"), "{text}");
        }
    }
}
