//! [`Vllm`]: bodies as vLLM 0.32 writes them.

use super::{
    bodies::{Bodies, Fail, Head, Portrait, event, quoted, quoted_or},
    draft::{Channel, Draft, Finish},
    settings::ReasoningField,
};
use std::fmt::Write as _;

/// How vLLM writes.
pub struct Vllm;

/// What a reply says it was made by.
const FINGERPRINT: &str = r#""system_fingerprint":"vllm-0.32.0-simulated""#;

impl Bodies for Vllm {
    fn id(&self, number: u128, chat: bool) -> String {
        // The upper half of the number; the low half goes unused in this shorter name.
        format!("{}-{:016x}", if chat { "chatcmpl" } else { "cmpl" }, number >> 64)
    }

    fn whole(&self, head: &Head, draft: &Draft) -> String {
        let finish = finish(&draft.finish);
        let (content, thought) = (draft.text(Channel::Content), draft.text(Channel::Thought));
        let (choice, tail) = if head.chat {
            let choice = format!(
                concat!(
                    r#""message":{{"role":"assistant","content":{},"refusal":null,"annotations":null,"audio":null,"#,
                    r#""function_call":null,"{}":{}}},"logprobs":null,{},"token_ids":null,"routed_experts":null"#
                ),
                quoted_or(content.as_deref(), "null"),
                field(head),
                quoted_or(thought.as_deref(), "null"),
                finish,
            );
            (choice, r#""prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"#)
        } else {
            let choice = format!(
                concat!(
                    r#""text":{},"logprobs":null,{},"token_ids":null,"prompt_logprobs":null,"#,
                    r#""prompt_token_ids":null,"routed_experts":null"#
                ),
                quoted(content.as_deref().unwrap_or_default()),
                finish,
            );
            (choice, "")
        };
        format!(
            concat!(
                r#"{{"id":"{}","object":"{}","created":{},"model":{},"choices":[{{"index":0,{}}}],"#,
                r#""service_tier":null,{},"usage":{},{}"#,
                r#""kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}}"#
            ),
            head.id,
            if head.chat { "chat.completion" } else { "text_completion" },
            head.created,
            quoted(&head.model),
            choice,
            FINGERPRINT,
            whole_usage(head, draft),
            tail,
        )
    }

    fn open(&self, head: &Head) -> String {
        if !head.chat {
            return String::new();
        }
        let choice = r#""delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null"#;
        chunk(head, choice, r#","prompt_token_ids":null,"prompt_text":null"#)
    }

    fn piece(&self, head: &Head, channel: Channel, text: &str) -> String {
        let said = said(head, channel, text);
        let choice = if head.chat {
            format!(r#"{said},"logprobs":null,"finish_reason":null,"token_ids":null"#)
        } else {
            let ids = r#""prompt_token_ids":null,"token_ids":null"#;
            format!(r#"{said},"logprobs":null,"finish_reason":null,"stop_reason":null,{ids}"#)
        };
        chunk(head, &choice, "")
    }

    fn last(&self, head: &Head, draft: &Draft, left: Option<(Channel, &str)>) -> String {
        // The last text and the finish reason share an event, unless the end is a token that is not shown.
        let (mut events, left) = match (&draft.finish, left) {
            (Finish::EndOfSequence, Some((channel, text))) => (self.piece(head, channel, text), None),
            (_, left) => (String::new(), left),
        };
        let (channel, text) = left.unwrap_or((Channel::Content, ""));
        let ids = if head.chat { r#""token_ids":null"# } else { r#""prompt_token_ids":null,"token_ids":null"# };
        let choice = format!(r#"{},"logprobs":null,{},{ids}"#, said(head, channel, text), finish(&draft.finish));
        let tail = if head.chat && !head.include_usage { format!(",{FINGERPRINT}") } else { String::new() };
        events += &chunk(head, &choice, &tail);
        events
    }

    fn usage(&self, head: &Head, draft: &Draft) -> String {
        let parts = match draft.thought_tokens().filter(|_| head.chat) {
            Some((_, thought)) => format!(r#","completion_tokens_details":{{"reasoning_tokens":{thought}}}"#),
            None => String::new(),
        };
        event(&format!(
            r#"{{"id":"{}","object":"{}","created":{},"model":{},"choices":[],"usage":{{{}{parts}}},{FINGERPRINT}}}"#,
            head.id,
            object(head),
            head.created,
            quoted(&head.model),
            counts(draft),
        ))
    }

    fn error(&self, fail: &Fail) -> String {
        format!(
            r#"{{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}}"#,
            quoted(&fail.message),
            fail.kind,
            quoted_or(fail.param, "null"),
            fail.status,
        )
    }

    fn error_event(&self, fail: &Fail) -> String {
        event(&format!(
            r#"{{"error": {{"message": {}, "type": "{}", "param": null, "code": {}}}}}"#,
            quoted(&fail.message),
            fail.kind,
            fail.status,
        ))
    }

    fn queue_full(&self, _stream: bool) -> (u16, String) {
        let message = "The engine is currently busy and cannot accept new requests. Please try again later or on a \
                       different instance.";
        (503, self.error(&Fail { status: 503, kind: "Service Unavailable", message: message.into(), param: None }))
    }

    fn portrait(&self, path: &str, portrait: &Portrait<'_>) -> Option<(&'static str, String)> {
        match path {
            "/v1/models" => Some(("application/json", models(portrait))),
            "/version" => Some(("application/json", r#"{"version":"0.32.0"}"#.into())),
            "/load" => {
                let load = portrait.gauges.running + portrait.gauges.queued;
                Some(("application/json", format!(r#"{{"server_load":{load}}}"#)))
            }
            "/metrics" => Some(("text/plain; version=1.0.0; charset=utf-8", metrics(portrait))),
            _ => None,
        }
    }
}

/// The field for thoughts; there is one even where thoughts are not put into it.
fn field(head: &Head) -> &'static str {
    match head.field {
        ReasoningField::ReasoningContent => "reasoning_content",
        ReasoningField::Reasoning | ReasoningField::Inline | ReasoningField::None => "reasoning",
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
        (true, _) => format!(r#""delta":{{"content":{text}}}"#),
    }
}

fn finish(finish: &Finish) -> String {
    let matched = match finish {
        Finish::StopString(stop) => quoted(stop),
        _ => "null".into(),
    };
    format!(r#""finish_reason":"{}","stop_reason":{matched}"#, finish.reason())
}

fn chunk(head: &Head, choice: &str, tail: &str) -> String {
    event(&format!(
        r#"{{"id":"{}","object":"{}","created":{},"model":{},"choices":[{{"index":0,{choice}}}]{tail}}}"#,
        head.id,
        object(head),
        head.created,
        quoted(&head.model),
    ))
}

fn counts(draft: &Draft) -> String {
    format!(
        r#""prompt_tokens":{},"total_tokens":{},"completion_tokens":{}"#,
        draft.prompt_tokens,
        draft.prompt_tokens + draft.tokens,
        draft.tokens,
    )
}

fn whole_usage(head: &Head, draft: &Draft) -> String {
    let parts = match draft.thought_tokens().filter(|_| head.chat) {
        Some((_, thought)) => format!(r#"{{"reasoning_tokens":{thought}}}"#),
        None => "null".into(),
    };
    format!(r#"{{{},"prompt_tokens_details":null,"completion_tokens_details":{parts}}}"#, counts(draft))
}

fn models(portrait: &Portrait<'_>) -> String {
    let model = quoted(portrait.model);
    format!(
        concat!(
            r#"{{"object":"list","data":[{{"id":{0},"object":"model","created":{1},"owned_by":"vllm","root":{0},"#,
            r#""parent":null,"max_model_len":{2},"permission":[{{"id":"modelperm-simulated","#,
            r#""object":"model_permission","created":{1},"allow_create_engine":false,"allow_sampling":true,"#,
            r#""allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"#,
            r#""organization":"*","group":null,"is_blocking":false}}]}}]}}"#
        ),
        model, portrait.started, portrait.context_length,
    )
}

/// The metrics a reader needs, with the trap that real ones hold: a `_created` gauge beside each counter.
fn metrics(portrait: &Portrait<'_>) -> String {
    let gauges = &portrait.gauges;
    let model = quoted(portrait.model);
    let labels = format!(r#"engine="0",model_name={model}"#);
    let success = format!(r#"engine="0",finished_reason="stop",model_name={model}"#);
    let usage = (gauges.cached_tokens as f64 / portrait.cache_tokens.max(1) as f64).min(1.0);
    let mut text = String::with_capacity(4096);
    let mut say = |name: &str, kind: &str, help: &str, labels: &str, value: f64| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP vllm:{name} {help}");
        let _ = writeln!(text, "# TYPE vllm:{name} {kind}");
        let _ = writeln!(text, "vllm:{name}{{{labels}}} {value:?}");
    };
    let started = portrait.started as f64;
    let (running, waiting) = ("Number of requests in model execution batches.", "Number of requests waiting.");
    say("num_requests_running", "gauge", running, &labels, gauges.running as f64);
    say("num_requests_waiting", "gauge", waiting, &labels, gauges.queued as f64);
    say("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", &labels, usage);
    let read = "Number of prefill tokens processed.";
    say("prompt_tokens_total", "counter", read, &labels, gauges.prompt_tokens as f64);
    say("prompt_tokens_created", "gauge", read, &labels, started);
    let made = "Number of generation tokens processed.";
    say("generation_tokens_total", "counter", made, &labels, gauges.generation_tokens as f64);
    say("generation_tokens_created", "gauge", made, &labels, started);
    let done = "Count of successfully processed requests.";
    say("request_success_total", "counter", done, &success, gauges.finished as f64);
    say("request_success_created", "gauge", done, &success, started);
    text
}
