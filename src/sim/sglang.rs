//! [`Sglang`]: bodies as SGLang 0.5.23 writes them.

use super::{
    bodies::{Bodies, DONE, Fail, Head, Portrait, event, quoted, quoted_or},
    draft::{Channel, Draft, Finish},
    settings::ReasoningField,
};
use std::fmt::Write as _;

/// How SGLang writes.
pub struct Sglang;

/// The token that ends a sequence, as `matched_stop` names it.
const END_OF_SEQUENCE: u32 = 2;

impl Bodies for Sglang {
    fn id(&self, number: u128, _chat: bool) -> String {
        format!("{number:032x}")
    }

    fn whole(&self, head: &Head, draft: &Draft) -> String {
        let content = draft.text(Channel::Content).unwrap_or_default();
        let said = if head.chat {
            let thought = quoted_or(draft.text(Channel::Thought).as_deref(), "null");
            let field = field(head);
            format!(r#""message":{{"role":"assistant","content":{},"{field}":{thought}}}"#, quoted(&content))
        } else {
            format!(r#""text":{}"#, quoted(&content))
        };
        format!(
            concat!(
                r#"{{"id":"{}","object":"{}","created":{},"model":{},"choices":[{{"index":0,{},"logprobs":null,{}}}],"#,
                r#""usage":{},"metadata":{{"weight_version":"default","#,
                r#""weight_versions":[{{"version":"default","start":0,"end":{}}}]}}}}"#
            ),
            head.id,
            if head.chat { "chat.completion" } else { "text_completion" },
            head.created,
            quoted(&head.model),
            said,
            finish(Some(&draft.finish)),
            usage(draft, true),
            draft.tokens,
        )
    }

    fn open(&self, head: &Head) -> String {
        if !head.chat {
            return String::new();
        }
        let delta = format!(r#""delta":{{"{}":null,"role":"assistant","content":""}}"#, field(head));
        chunk(head, &delta, None)
    }

    fn piece(&self, head: &Head, channel: Channel, text: &str) -> String {
        chunk(head, &said(head, channel, text), None)
    }

    fn last(&self, head: &Head, draft: &Draft, left: Option<(Channel, &str)>) -> String {
        if !head.chat {
            let (channel, text) = left.unwrap_or((Channel::Content, ""));
            return chunk(head, &said(head, channel, text), Some(&draft.finish));
        }
        let mut events = left.map_or_else(String::new, |(channel, text)| self.piece(head, channel, text));
        events += &chunk(head, &format!(r#""delta":{{"{}":null}}"#, field(head)), Some(&draft.finish));
        events
    }

    fn usage(&self, head: &Head, draft: &Draft) -> String {
        event(&format!(
            r#"{{"id":"{}","object":"{}","created":{},"model":{},"choices":[],"usage":{}}}"#,
            head.id,
            object(head),
            head.created,
            quoted(&head.model),
            usage(draft, head.chat),
        ))
    }

    fn error(&self, fail: &Fail) -> String {
        format!(
            r#"{{"object":"error","message":{},"type":"{}","param":{},"code":{}}}"#,
            quoted(&fail.message),
            fail.kind,
            quoted_or(fail.param, "null"),
            fail.status,
        )
    }

    fn error_event(&self, fail: &Fail) -> String {
        event(&format!(
            r#"{{"error": {{"object": "error", "message": {}, "type": "{}", "param": null, "code": {}}}}}"#,
            quoted(&fail.message),
            fail.kind,
            fail.status,
        ))
    }

    fn queue_full(&self, stream: bool) -> (u16, String) {
        let mut fail = Fail { status: 503, kind: "503", message: "The request queue is full.".into(), param: None };
        if stream {
            fail.kind = "SERVICE_UNAVAILABLE";
            return (200, self.error_event(&fail) + DONE);
        }
        (503, self.error(&fail))
    }

    fn portrait(&self, path: &str, portrait: &Portrait<'_>) -> Option<(&'static str, String)> {
        let model = quoted(portrait.model);
        let card = format!(
            r#"{{"id":{model},"object":"model","created":{},"owned_by":"sglang","root":{model},"parent":null,"max_model_len":{}}}"#,
            portrait.started, portrait.context_length,
        );
        match path {
            "/v1/models" => Some(("application/json", format!(r#"{{"object":"list","data":[{card}]}}"#))),
            "/server_info" | "/get_server_info" => Some(("application/json", server_info(portrait))),
            "/metrics" => Some(("text/plain; version=0.0.4; charset=utf-8", metrics(portrait))),
            _ => (path.strip_prefix("/v1/models/") == Some(portrait.model)).then_some(("application/json", card)),
        }
    }
}

/// The field for thoughts; there is one even where thoughts are not put into it.
fn field(head: &Head) -> &'static str {
    match head.field {
        ReasoningField::Reasoning => "reasoning",
        ReasoningField::ReasoningContent | ReasoningField::Inline | ReasoningField::None => "reasoning_content",
    }
}

fn object(head: &Head) -> &'static str {
    if head.chat { "chat.completion.chunk" } else { "text_completion" }
}

fn said(head: &Head, channel: Channel, text: &str) -> String {
    let text = quoted(text);
    match (head.chat, channel) {
        (false, _) => format!(r#""text":{text}"#),
        (true, Channel::Thought) => format!(r#""delta":{{"{}":{text}}}"#, field(head)),
        (true, _) => format!(r#""delta":{{"{}":null,"content":{text}}}"#, field(head)),
    }
}

fn finish(finish: Option<&Finish>) -> String {
    let reason = quoted_or(finish.map(Finish::reason), "null");
    let matched = match finish {
        Some(Finish::EndOfSequence) => END_OF_SEQUENCE.to_string(),
        Some(Finish::StopString(stop)) => quoted(stop),
        _ => "null".into(),
    };
    format!(r#""finish_reason":{reason},"matched_stop":{matched}"#)
}

fn chunk(head: &Head, said: &str, ended: Option<&Finish>) -> String {
    event(&format!(
        r#"{{"id":"{}","object":"{}","created":{},"model":{},"choices":[{{"index":0,{said},"logprobs":null,{}}}]{}}}"#,
        head.id,
        object(head),
        head.created,
        quoted(&head.model),
        finish(ended),
        if head.chat { "" } else { r#","usage":null"# },
    ))
}

/// The usage; the last event of a text completion has no details.
fn usage(draft: &Draft, details: bool) -> String {
    let thought = draft.thought_tokens().map_or(0, |(with_markers, _)| with_markers);
    let counts = format!(
        r#""prompt_tokens":{},"total_tokens":{},"completion_tokens":{}"#,
        draft.prompt_tokens,
        draft.prompt_tokens + draft.tokens,
        draft.tokens,
    );
    if !details {
        return format!(r#"{{{counts},"reasoning_tokens":{thought}}}"#);
    }
    let parts = if thought == 0 { "null".into() } else { format!(r#"{{"reasoning_tokens":{thought}}}"#) };
    format!(
        r#"{{{counts},"prompt_tokens_details":null,"reasoning_tokens":{thought},"completion_tokens_details":{parts}}}"#
    )
}

/// A few of the real reply's 556 keys, in its order.
fn server_info(portrait: &Portrait<'_>) -> String {
    let model = quoted(portrait.model);
    format!(
        concat!(
            r#"{{"model_path":{0},"tokenizer_path":{0},"context_length":{1},"max_running_requests":{2},"#,
            r#""max_queued_requests":{3},"max_total_tokens":{4},"served_model_name":{0},"status":"ready","#,
            r#""max_total_num_tokens":{4},"internal_states":[{{"effective_max_running_requests_per_dp":{2},"#,
            r#""last_gen_throughput":{5:?},"memory_usage":{{"token_capacity":{4}}}}}],"#,
            r#""version":"0.5.23","frontend":"python"}}"#
        ),
        model,
        portrait.context_length,
        portrait.max_running,
        portrait.max_queued.map_or_else(|| "null".into(), |most| most.to_string()),
        portrait.cache_tokens,
        portrait.gauges.throughput,
    )
}

/// The metrics a reader needs, with the trap that real ones hold: a value that is not a number.
fn metrics(portrait: &Portrait<'_>) -> String {
    let gauges = &portrait.gauges;
    let model = quoted(portrait.model);
    let rank = format!(r#"engine_type="unified",model_name={model},moe_ep_rank="0",pp_rank="0",tp_rank="0""#);
    let request = format!(r#"engine_type="unified",is_streaming="false",model_name={model}"#);
    let decode =
        format!(r#"engine_type="unified",mode="decode",model_name={model},moe_ep_rank="0",pp_rank="0",tp_rank="0""#);
    let usage = (gauges.cached_tokens as f64 / portrait.cache_tokens.max(1) as f64).min(1.0);
    let mut text = String::with_capacity(4096);
    let mut say = |name: &str, kind: &str, help: &str, labels: &str, value: f64| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP sglang:{name} {help}");
        let _ = writeln!(text, "# TYPE sglang:{name} {kind}");
        let _ = writeln!(text, "sglang:{name}{{{labels}}} {value:?}");
    };
    let made = gauges.generation_tokens as f64;
    say("realtime_tokens_total", "counter", "Total number of tokens processed.", &decode, made);
    let (read, finished) = (gauges.prompt_tokens as f64, gauges.finished_tokens as f64);
    say("prompt_tokens_total", "counter", "Number of prefill tokens processed.", &request, read);
    say("generation_tokens_total", "counter", "Number of generation tokens processed.", &request, finished);
    say("num_requests_total", "counter", "Number of requests processed.", &request, gauges.finished as f64);
    let aborted = gauges.cancelled as f64;
    say("num_aborted_requests_total", "counter", "Number of requests aborted.", &request, aborted);
    say("num_running_reqs", "gauge", "The number of running requests.", &rank, gauges.running as f64);
    say("num_queue_reqs", "gauge", "The number of requests in the waiting queue.", &rank, gauges.queued as f64);
    say("gen_throughput", "gauge", "The generation throughput (token/s).", &rank, gauges.throughput);
    say("token_usage", "gauge", "The token usage.", &rank, usage);
    say("spec_accept_length", "gauge", "Mean acceptance length of speculative decoding.", &rank, 0.0);
    say("spec_accept_rate", "gauge", "Speculative acceptance rate.", &rank, 0.0);
    say("fwd_occupancy", "gauge", "Forward pass GPU occupancy percentage.", &rank, f64::NAN);
    text
}
