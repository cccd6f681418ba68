//! [`SimSettings`]: what the simulated servers are like.

use super::{engine::Capacity, faults::Fault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What simulated servers are like: one engine model, as many servers as wanted, faults on request.
///
/// All times and speeds are those of the simulated servers; `time_scale` says how fast their clock runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SimSettings {
    /// How many servers there are.
    pub servers: usize,
    /// The name of the model they serve.
    pub model: String,
    /// Whose routes, bodies and metrics they speak.
    pub dialect: Dialect,
    /// Tokens per second that a very large batch would make on a server of speed 1.
    pub tokens_per_second: f64,
    /// The batch size at which half of `tokens_per_second` is reached.
    pub half_batch: f64,
    /// Prompt tokens read per second.
    pub prefill_tokens_per_second: f64,
    /// The speed of each server, 1 being ordinary; servers beyond the list have speed 1.
    pub speeds: Vec<f64>,
    /// Requests that a server runs at once; further ones wait in its queue.
    pub max_running: usize,
    /// Requests that wait at once; further ones are refused as the dialect does. Not set: none is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queued: Option<usize>,
    /// Tokens that prompt and answer may have together.
    pub context_length: u32,
    /// Tokens that fit into a server's cache; only the shown cache usage depends on it.
    pub cache_tokens: u64,
    /// Mean length of an answer in tokens, thought included; lengths are log-normal.
    pub mean_tokens: f64,
    /// Standard deviation of the logarithm of the length; 0: all are equally long.
    pub sigma: f64,
    /// The share of an answer's tokens that is thought; 0: the model does not think.
    pub thinking_share: f64,
    /// Where a thought is put; not set: where the dialect puts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_field: Option<ReasoningField>,
    /// How many seconds of the servers pass in one second.
    pub time_scale: f64,
    /// Whether all answers come at once, whatever the speed; faults that take time still take it.
    pub instant: bool,
    /// Seconds, of the servers' time, between two pieces of a streamed answer.
    pub stream_interval: f64,
    /// What all texts, lengths and faults are derived from.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// Whose routes, bodies and metrics a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// As SGLang 0.5.
    #[default]
    Sglang,
    /// As vLLM 0.32.
    Vllm,
}

/// Where a thought is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum ReasoningField {
    /// Beside the content, as SGLang and llama.cpp do.
    ReasoningContent,
    /// Beside the content, as vLLM does.
    Reasoning,
    /// In the content, between `<think>` and `</think>`: a server without a reasoning parser.
    Inline,
    /// Nowhere: the thought costs its tokens and is not shown.
    None,
}

impl Default for SimSettings {
    fn default() -> Self {
        SimSettings {
            servers: 1,
            model: "simulated".into(),
            dialect: Dialect::Sglang,
            tokens_per_second: 4000.0,
            half_batch: 24.0,
            prefill_tokens_per_second: 20_000.0,
            speeds: Vec::new(),
            max_running: 48,
            max_queued: None,
            context_length: 32_768,
            cache_tokens: 400_000,
            mean_tokens: 400.0,
            sigma: 0.6,
            thinking_share: 0.5,
            reasoning_field: None,
            time_scale: 1.0,
            instant: false,
            stream_interval: 0.1,
            seed: 0,
            faults: Vec::new(),
        }
    }
}

impl SimSettings {
    /// Everything that is wrong with the values, as (key, why). Servers must be started with sound settings only.
    pub fn complaints(&self) -> Vec<(&'static str, &'static str)> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let mut say = Vec::new();
        let mut check = |good: bool, key, why| {
            if !good {
                say.push((key, why));
            }
        };
        check((1..=1024).contains(&self.servers), "servers", "must be 1 to 1024");
        check(positive(self.tokens_per_second), "tokens_per_second", "must be more than 0");
        check(self.half_batch >= 0.0 && self.half_batch.is_finite(), "half_batch", "must be 0 or more");
        check(positive(self.prefill_tokens_per_second), "prefill_tokens_per_second", "must be more than 0");
        check(self.speeds.iter().all(|speed| positive(*speed)), "speeds", "must all be more than 0");
        check(self.max_running > 0, "max_running", "must be at least 1");
        check((1..=10_000_000).contains(&self.context_length), "context_length", "must be 1 to 10000000");
        check(positive(self.mean_tokens), "mean_tokens", "must be more than 0");
        check((0.0..=4.0).contains(&self.sigma), "sigma", "must be 0 to 4");
        check((0.0..=1.0).contains(&self.thinking_share), "thinking_share", "must be 0 to 1");
        check(positive(self.time_scale), "time_scale", "must be more than 0");
        check(positive(self.stream_interval), "stream_interval", "must be more than 0");
        check(self.faults.iter().all(Fault::is_sound), "faults", "shares must be 0 to 1, times and factors positive");
        say
    }

    /// What server `index` can do.
    pub fn capacity(&self, index: usize) -> Capacity {
        let speed = self.speeds.get(index).copied().unwrap_or(1.0);
        Capacity {
            peak: self.tokens_per_second * speed,
            half: self.half_batch,
            prefill: self.prefill_tokens_per_second * speed,
            max_running: self.max_running,
            max_queued: self.max_queued,
        }
    }

    /// Where a thought is put.
    pub fn thought_goes_to(&self) -> ReasoningField {
        self.reasoning_field.unwrap_or(match self.dialect {
            Dialect::Sglang => ReasoningField::ReasoningContent,
            Dialect::Vllm => ReasoningField::Reasoning,
        })
    }

    /// The time between two pieces of a streamed answer, on the servers' clock.
    pub fn stream_interval(&self) -> Duration {
        Duration::try_from_secs_f64(self.stream_interval).unwrap_or(Duration::from_millis(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_one_small_table() {
        let settings: SimSettings = toml::from_str(
            "servers = 7\ndialect = \"vllm\"\nspeeds = [1, 1, 0.78]\nfaults = [{ kind = \"empty\", share = 0.1 }]",
        )
        .expect("it parses");
        assert_eq!((settings.servers, settings.dialect), (7, Dialect::Vllm));
        assert_eq!(settings.capacity(2).peak, 4000.0 * 0.78);
        assert_eq!(settings.capacity(6).peak, 4000.0);
        assert!(settings.complaints().is_empty());
        assert!(toml::from_str::<SimSettings>("server = 7").is_err());
    }

    #[test]
    fn every_wrong_value_is_named() {
        let settings = SimSettings { servers: 0, time_scale: -1.0, sigma: f64::NAN, ..SimSettings::default() };
        let keys: Vec<_> = settings.complaints().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["servers", "sigma", "time_scale"]);
    }
}
