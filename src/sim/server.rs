//! [`Server`]: what one simulated server answers to one request, as a script: which work, which text, which mishap.
//!
//! It knows neither sockets nor tasks. The script is played by [`Live`](super::live::Live), against the engine's time.

use super::{
    bodies::{Bodies, Fail, Head, Portrait, bodies},
    draft::{Draft, Finish},
    engine::{Gauges, Work},
    faults::{Fault, FaultKind, Occasion, striking},
    persona::{Cue, Persona},
    question::Question,
    settings::{Dialect, SimSettings},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// When simulated servers believe they started, in seconds since 1970: replies do not depend on the day.
const STARTED: u64 = 1_796_000_000;

/// One simulated server.
pub struct Server {
    index: usize,
    settings: Arc<SimSettings>,
    persona: Arc<Persona>,
    ledger: Arc<Ledger>,
    started: AtomicU64,
}

/// What was asked of all servers together, and how often.
#[derive(Debug, Default)]
pub struct Ledger {
    attempts: Mutex<HashMap<u64, u32>>,
}

impl Ledger {
    /// How often each prompt was asked, by its hash.
    pub fn attempts(&self) -> HashMap<u64, u32> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Books an attempt; gives the number of those before it.
    fn book(&self, prompt: u64) -> u32 {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = attempts.entry(prompt).or_insert(0);
        *count += 1;
        *count - 1
    }
}

/// What a server does about a request.
pub enum Script {
    /// It answers at once.
    Reply(Fixed),
    /// It has work to do first.
    Job(Box<Job>),
    /// It never answers; a stream at least begins.
    Silence {
        /// Whether the head of the reply is sent.
        head: bool,
    },
}

/// A reply that is known at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    /// The HTTP status.
    pub status: u16,
    /// The value of `content-type`; empty: none is sent.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

/// A reply that has to be worked for.
pub struct Job {
    /// What the engine has to do for it.
    pub work: Work,
    /// What is said.
    pub draft: Draft,
    /// What all events of it have in common.
    pub head: Head,
    /// Whether it comes as events.
    pub stream: bool,
    /// What happens when the work is done, instead of a proper end.
    pub mishap: Option<Mishap>,
    /// How it is written.
    pub bodies: &'static dyn Bodies,
}

/// How a reply ends that does not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mishap {
    /// The connection is lost.
    Reset,
    /// It ends as if it were whole.
    Cut,
    /// It ends with an error.
    Error(Fail),
}

impl Server {
    /// Server `index` of those that `settings` describe.
    pub fn new(index: usize, settings: Arc<SimSettings>, persona: Arc<Persona>, ledger: Arc<Ledger>) -> Self {
        Server { index, settings, persona, ledger, started: AtomicU64::new(0) }
    }

    /// Its place among the servers, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Completion requests that could be read.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Whether a fault has this server down at time `now`.
    pub fn is_down(&self, now: Duration) -> bool {
        self.has(FaultKind::Down, now)
    }

    /// The next time after `now` at which it may go down or come back.
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        let down = self.settings.faults.iter().filter(|fault| fault.kind == FaultKind::Down);
        down.filter_map(|fault| fault.next_change(now)).min()
    }

    /// That the queue is full, as the dialect says it.
    pub fn queue_full(&self, stream: bool) -> Fixed {
        let (status, body) = bodies(self.settings.dialect).queue_full(stream);
        let content_type = if status == 200 { EVENTS } else { JSON };
        Fixed { status, content_type, body }
    }

    /// What it does about a request at time `now`, its engine's counters being `gauges`.
    pub fn answer(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        now: Duration,
        gauges: impl FnOnce() -> Gauges,
    ) -> Script {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        if self.has(FaultKind::Loading, now) {
            let message = "The server is loading the model.".into();
            return self.refuse(&Fail { status: 503, kind: "Service Unavailable", message, param: None });
        }
        match (method, path) {
            ("POST", "/v1/chat/completions") => self.complete(body, true, now),
            ("POST", "/v1/completions") => self.complete(body, false, now),
            ("GET", "/health") => fixed(200, "", String::new()),
            (_, "/v1/chat/completions" | "/v1/completions") => {
                fixed(405, JSON, r#"{"detail":"Method Not Allowed"}"#.into())
            }
            ("GET", path) => match bodies(self.settings.dialect).portrait(path, &self.portrait(now, gauges())) {
                Some((content_type, body)) => fixed(200, content_type, body),
                None => fixed(404, JSON, r#"{"detail":"Not Found"}"#.into()),
            },
            _ => fixed(404, JSON, r#"{"detail":"Not Found"}"#.into()),
        }
    }

    fn complete(&self, body: &[u8], chat: bool, now: Duration) -> Script {
        let settings = &*self.settings;
        let question = match Question::read(body, chat, settings.dialect) {
            Ok(question) => question,
            Err(fail) => return self.refuse(&fail),
        };
        if let Some(model) = question.model.as_deref().filter(|model| self.does_not_serve(model)) {
            let message = format!("The model `{model}` does not exist. Valid aliases: {}.", settings.model);
            return self.refuse(&Fail { status: 404, kind: "NotFoundError", message, param: Some("model") });
        }
        let prompt_tokens = question.prompt_tokens();
        let limit = match question.limit(settings.context_length, prompt_tokens, settings.dialect) {
            Ok(limit) => limit,
            Err(fail) => return self.refuse(&fail),
        };
        let prompt = question.hash();
        let occasion = Occasion {
            server: self.index,
            now,
            earlier_requests: self.started.fetch_add(1, Ordering::Relaxed),
            prompt,
            earlier_attempts: self.ledger.book(prompt),
            request_seed: question.seed.unwrap_or(0).cast_unsigned(),
        };
        let fault = striking(&settings.faults, settings.seed, &occasion);
        if let Some(script) = fault.and_then(|fault| self.failing(fault, question.stream())) {
            return script;
        }
        let draft = self.draft(&question, &occasion, prompt_tokens, limit, fault);
        let mishap = fault.and_then(|fault| match fault.kind {
            FaultKind::Reset => Some(Mishap::Reset),
            FaultKind::Cut => Some(Mishap::Cut),
            FaultKind::SseError => Some(Mishap::Error(engine_died())),
            _ => None,
        });
        let part = |fault: &Fault| share(draft.tokens, fault.at);
        let output_tokens = fault.filter(|_| mishap.is_some()).map_or(draft.tokens, part);
        let cost = fault.filter(|fault| fault.kind == FaultKind::Slow).map_or(1.0, |fault| fault.factor);
        let writer = bodies(settings.dialect);
        let head = Head {
            id: writer.id(self.number(&occasion), chat),
            created: STARTED + now.as_secs(),
            model: self.model_name(question.model.as_deref(), fault),
            chat,
            include_usage: question.include_usage(),
            field: settings.thought_goes_to(),
        };
        let work = Work { prompt_tokens, output_tokens, cost };
        Script::Job(Box::new(Job { work, draft, head, stream: question.stream(), mishap, bodies: writer }))
    }

    /// The script of a fault that leaves nothing to work for.
    fn failing(&self, fault: &Fault, stream: bool) -> Option<Script> {
        let writer = bodies(self.settings.dialect);
        match fault.kind {
            FaultKind::Stall => Some(Script::Silence { head: stream }),
            FaultKind::HttpError => {
                let message = format!("simulated error {}", fault.status);
                let kind = if fault.status < 500 { "BadRequestError" } else { "InternalServerError" };
                Some(self.refuse(&Fail { status: fault.status, kind, message, param: None }))
            }
            FaultKind::HtmlError => Some(fixed(502, "text/html", BAD_GATEWAY.into())),
            FaultKind::QueueFull => Some(Script::Reply(self.queue_full(stream))),
            FaultKind::ErrorInside200 if stream => {
                Some(fixed(200, EVENTS, writer.error_event(&engine_died()) + super::bodies::DONE))
            }
            FaultKind::ErrorInside200 => Some(fixed(200, JSON, writer.error(&engine_died()))),
            _ => None,
        }
    }

    fn draft(
        &self,
        question: &Question,
        occasion: &Occasion,
        prompt_tokens: u32,
        limit: u32,
        fault: Option<&Fault>,
    ) -> Draft {
        let words = question.last_words();
        let variant = match question.seed {
            _ if question.greedy() => 0,
            Some(seed) => seed.cast_unsigned().wrapping_add(1),
            // Without a seed each reply is another one, as far as that can be told without chance.
            None => u64::from(occasion.earlier_attempts) | 1 << 63,
        };
        let cue = Cue { prompt: occasion.prompt, question: &words, variant, thinking: question.thinking() };
        let field = self.settings.thought_goes_to();
        let kind = fault.map(|fault| fault.kind);
        let draft = match kind {
            Some(FaultKind::Empty) => Draft::empty(field, prompt_tokens),
            Some(FaultKind::Garbage) => {
                Draft::new(self.persona.stutter(cue, limit.saturating_add(1)), field, prompt_tokens)
            }
            _ => Draft::new(self.persona.say(cue), field, prompt_tokens),
        };
        let draft = if kind == Some(FaultKind::OnlyThinking) { draft.only_thought() } else { draft };
        let draft = draft.stop_at(&question.stops()).limit(limit, Finish::Length);
        let part = fault.map_or(0, |fault| share(draft.tokens, fault.at));
        match kind {
            Some(FaultKind::Truncated) => draft.limit(part, Finish::Length),
            Some(FaultKind::Aborted) => draft.limit(part, Finish::Abort),
            _ => draft,
        }
    }

    /// vLLM knows its own model only; SGLang answers to any name.
    fn does_not_serve(&self, model: &str) -> bool {
        self.settings.dialect == Dialect::Vllm && model != self.settings.model
    }

    /// The name that the reply gives: SGLang gives back the one it was asked for.
    fn model_name(&self, asked: Option<&str>, fault: Option<&Fault>) -> String {
        match (fault.map(|fault| fault.kind), self.settings.dialect, asked) {
            (Some(FaultKind::WrongModel), ..) => OTHER_MODEL.to_owned(),
            (_, Dialect::Sglang, Some(asked)) => asked.to_owned(),
            _ => self.settings.model.clone(),
        }
    }

    /// A number that no other reply has.
    fn number(&self, occasion: &Occasion) -> u128 {
        let mut bytes = [0; 24];
        let parts = [self.index as u64, occasion.earlier_requests, occasion.prompt];
        for (into, from) in bytes.chunks_exact_mut(8).zip(parts) {
            into.copy_from_slice(&from.to_le_bytes());
        }
        xxh3_128_with_seed(&bytes, self.settings.seed)
    }

    fn portrait(&self, now: Duration, gauges: Gauges) -> Portrait<'_> {
        let settings = &*self.settings;
        // A server that gives another name in every reply gives it here too.
        let renamed = settings
            .faults
            .iter()
            .any(|fault| fault.kind == FaultKind::WrongModel && fault.share >= 1.0 && fault.is_on(self.index, now));
        Portrait {
            model: if renamed { OTHER_MODEL } else { &settings.model },
            context_length: settings.context_length,
            max_running: settings.max_running,
            max_queued: settings.max_queued,
            cache_tokens: settings.cache_tokens,
            started: STARTED,
            gauges,
        }
    }

    fn has(&self, kind: FaultKind, now: Duration) -> bool {
        self.settings.faults.iter().any(|fault| fault.kind == kind && fault.is_on(self.index, now))
    }

    fn refuse(&self, fail: &Fail) -> Script {
        fixed(fail.status, JSON, bodies(self.settings.dialect).error(fail))
    }
}

/// The content type of a whole reply.
pub const JSON: &str = "application/json";
/// The content type of a reply that comes as events.
pub const EVENTS: &str = "text/event-stream; charset=utf-8";

/// The name of the model that should not be there.
const OTHER_MODEL: &str = "another-model";

/// The page of a gateway that does not reach its server.
const BAD_GATEWAY: &str = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad \
                           Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n";

fn fixed(status: u16, content_type: &'static str, body: String) -> Script {
    Script::Reply(Fixed { status, content_type, body })
}

/// What vLLM says when its engine process dies.
fn engine_died() -> Fail {
    let message = "EngineCore encountered an issue. See stack trace (above) for the root cause.".into();
    Fail { status: 500, kind: "InternalServerError", message, param: None }
}

fn share(tokens: u32, share: f64) -> u32 {
    (f64::from(tokens) * share) as u32
}
