//! What every kind of stage promises, held against each kind there is: a new one is covered by standing in the list.

#![cfg(test)]
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod support;

use forebay::{
    config,
    diagnostic::Diagnostics,
    edge::{self, Account, AsideInlet, Inlet, Outlet},
    fleet::{Fleet, Transport},
    journal::RunDir,
    pipeline::Plan,
    record::{Attempt, Completion, Door, End, Finish, Record, RecordId, Rejection, Request, Thinking, Usage, Verdict},
    setting::Complaints,
    stage::{Built, Ended, Judge, Kind, Kinds, Knowledge, Parts, Stage, Workers},
    stop::Stopper,
    store::Place,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use support::Bench;
use tokio::{task::JoinSet, time::timeout};

/// Longer than any stage needs, on a clock that jumps when nothing moves: a deadlock ends at once.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// A record is about this large; so is the memory in the narrowest chain.
const ONE_RECORD: u32 = 150;

const ROWS: usize = 40;

/// The usual chain with `kind` in it, each stage as its example has it; `more` stands in the table of `kind`.
fn plan(kind: &Kind, more: &str, bench: &Bench) -> Result<Plan, Diagnostics> {
    let kinds = Kinds::builtin();
    let mut text = "name = \"contract\"\n[fleet]\nmodel = \"demo\"\nservers = [\"http://sim-0.invalid\"]\n".to_owned();
    let mut chain = vec!["read", "template", "dispatch", "validate", "sink"];
    if !chain.contains(&kind.name) {
        chain.insert(4, kind.name);
    }
    for name in chain {
        text.push_str(kinds.get(name).expect("one of the usual").example);
        text.push_str(if name == kind.name { more } else { "" });
    }
    let (input, out) = (bench.path("input.jsonl"), bench.path("out"));
    let set = [format!("stage.read.path={input}"), format!("stage.sink.path={out}"), "stage.sink.format=jsonl".into()];
    config::load(&text, "contract.toml", &set, &kinds)
}

/// Rows with an answer, rows without one, and rows that some stage cannot use.
fn rows() -> Vec<String> {
    let mut rows = support::rows(ROWS, 50);
    rows[7] = r#"{"id": 7, "text": "no conversation"}"#.to_owned();
    rows
}

/// One stage on its own, with someone at each of its ends.
struct Rig {
    name: &'static str,
    bench: Bench,
    door: Door,
    stopper: Stopper,
    stage: JoinSet<Ended>,
    into: Option<Outlet>,
    passed: Option<Inlet>,
    around: Option<Inlet>,
    aside: Option<AsideInlet>,
}

/// What came out of a stage, by what went into it.
#[derive(Default)]
struct Out {
    passed: Vec<Record>,
    around: Vec<Record>,
    aside: Vec<(Record, Rejection)>,
}

impl Rig {
    async fn start(kind: &Kind, capacity: usize, memory: u32) -> Rig {
        let bench = Bench::new();
        bench.input(&rows());
        let mut plan = plan(kind, "", &bench).unwrap_or_else(|wrong| panic!("{}: {wrong}", kind.name));
        let (stopper, stop) = Stopper::new();
        let door = Door::new(memory);
        let transport: Arc<dyn Transport> = support::servers(1, |_| {});
        let place = Place::parse(&bench.path("run")).expect("a place");
        let parts = Parts {
            door: door.clone(),
            fleet: plan.fleet.take().map(|fleet| Arc::new(Fleet::new(fleet))),
            transport: Some(transport),
            answers: None,
            run_dir: Arc::new(RunDir::open(place).await.expect("a run directory")),
            stop,
            seed: 0,
            limit: None,
            judge: Judge::default(),
            progress: Arc::default(),
        };
        let planned = plan.stages.into_iter().find(|stage| stage.kind.name == kind.name).expect("it is in the plan");
        let built = planned.settings.build(&parts).expect(kind.name);
        assert_eq!(matches!(built, Built::Stage(_)), kind.moves_records, "{} says what it is", kind.name);
        let stage: Box<dyn Stage> = match built {
            Built::Transform(transform) => Box::new(Workers::new(transform, 3)),
            Built::Stage(stage) => stage,
        };

        let account = Arc::new(Account::default());
        let ((to, from), (on, passed)) = (edge::edge(capacity), edge::edge(capacity));
        let ((round, around), (out, aside)) = (edge::edge(capacity), edge::aside_edge(capacity));
        let nobody = edge::aside_edge(1).0;
        let inlet = if reads(kind) { Inlet::empty() } else { Inlet::new(from, Arc::clone(&account)) };
        let outlet = Outlet::new(on, Some(round), out, account);
        let mut tasks = JoinSet::new();
        tasks.spawn(stage.run(inlet, outlet));
        Rig {
            name: kind.name,
            bench,
            door,
            stopper,
            stage: tasks,
            into: (!reads(kind)).then(|| Outlet::new(to, None, nobody, Arc::default())),
            passed: Some(Inlet::new(passed, Arc::default())),
            around: Some(Inlet::new(around, Arc::default())),
            aside: Some(aside),
        }
    }

    /// Gives the stage every row, each with all that the stage needs to know of it, until nobody takes more.
    async fn give(&mut self, needs: &'static [Knowledge]) -> JoinSet<()> {
        let mut giving = JoinSet::new();
        if let Some(into) = self.into.take() {
            let door = self.door.clone();
            giving.spawn(async move {
                for (number, row) in rows().into_iter().enumerate() {
                    let id = RecordId::new("input.jsonl", number as u64 + 1, row.as_bytes());
                    let ticket = door.enter(id.clone(), row.len()).await;
                    let mut record = Record::new(id, row.into(), Arc::default(), ticket);
                    needs.iter().for_each(|need| learn(&mut record, *need, number));
                    if let Err(edge::Closed(record)) = into.pass(record).await {
                        record.ticket.tell(End::Remaining);
                        break;
                    }
                }
            });
        }
        giving
    }

    /// Takes all that comes out; each record's end is told as it is taken, as by a sink that never falls behind.
    async fn take(&mut self) -> Out {
        let mut out = Out::default();
        let (passed, around, aside) = (self.passed.take(), self.around.take(), self.aside.take());
        let (passed, around, aside) = (passed.expect("once"), around.expect("once"), aside.expect("once"));
        let told = |record: &mut Record| {
            std::mem::replace(&mut record.ticket, forebay::record::Ticket::blank()).tell(End::Forwarded);
        };
        let pass = async {
            while let Some(mut record) = passed.next().await {
                told(&mut record);
                out.passed.push(record);
            }
        };
        let round = async {
            while let Some(mut record) = around.next().await {
                told(&mut record);
                out.around.push(record);
            }
        };
        let set_aside = async {
            while let Some((mut record, rejection)) = aside.next().await {
                told(&mut record);
                out.aside.push((record, rejection));
            }
        };
        tokio::join!(pass, round, set_aside);
        out
    }

    async fn ended(&mut self) -> Ended {
        let ended = timeout(FOR_EVER, self.stage.join_next()).await;
        let ended = ended.unwrap_or_else(|_| panic!("{} never ends", self.name));
        ended.expect("it was started").unwrap_or_else(|panic| panic!("{} panicked: {panic}", self.name))
    }

    /// Runs it to the end of its input.
    async fn run(&mut self, kind: &Kind) -> (Ended, Out) {
        let mut giving = self.give(kind.needs).await;
        let taken = timeout(FOR_EVER, self.take()).await;
        let out = taken.unwrap_or_else(|_| panic!("{} is stuck", self.name));
        let ended = self.ended().await;
        giving.join_next().await;
        (ended, out)
    }

    fn nothing_vanished(&self) {
        let tally = self.door.tally();
        assert_eq!(tally.untold, 0, "{} dropped records untold: {:?}", self.name, tally.untold_ids);
        assert_eq!(tally.count(|_| true), tally.entered, "{}", self.name);
    }
}

impl Out {
    /// The positions of all records that came out; none of them twice.
    fn rows(&self, name: &str) -> BTreeSet<u64> {
        let aside = self.aside.iter().map(|(record, _)| record);
        let mut rows = BTreeSet::new();
        for record in self.passed.iter().chain(&self.around).chain(aside) {
            assert!(rows.insert(record.id.row), "{name} doubled {}", record.id);
        }
        rows
    }
}

fn id(row: &str) -> u64 {
    serde_json::from_str::<serde_json::Value>(row).expect("a whole line")["id"].as_u64().expect("an id")
}

/// Has no input of its own: it reads files.
fn reads(kind: &Kind) -> bool {
    kind.name == "read"
}

/// Has no output of its own: it ends records.
fn ends_records(kind: &Kind) -> bool {
    kind.name == "sink"
}

/// Makes known of a record what a stage before would have found out. Every fifth answer is an empty one.
fn learn(record: &mut Record, need: Knowledge, number: usize) {
    match need {
        Knowledge::Row => {}
        Knowledge::Request => record.request = Some(Arc::new(request(number))),
        Knowledge::Completion => {
            learn(record, Knowledge::Request, number);
            record.attempts.push(attempt(if number.is_multiple_of(5) { "" } else { "An answer." }));
        }
        Knowledge::Verdict => record.verdict = Some(Verdict::Accept),
    }
}

fn knows(record: &Record, thing: Knowledge) -> bool {
    match thing {
        Knowledge::Row => !record.row.is_empty(),
        Knowledge::Request => record.request.is_some(),
        Knowledge::Completion => record.completion().is_some(),
        Knowledge::Verdict => record.verdict.is_some(),
    }
}

fn request(number: usize) -> Request {
    let body = serde_json::json!({ "messages": [{ "role": "user", "content": format!("Question {number}?") }] });
    Request {
        path: "/v1/chat/completions",
        body: body.as_object().cloned().expect("an object"),
        thinking: Thinking::Unset,
        max_tokens: 64,
        run_seed: 0,
    }
}

fn attempt(answer: &str) -> Attempt {
    let completion = Completion {
        content: answer.to_owned(),
        reasoning: None,
        tool_calls: None,
        finish: Finish::Stop,
        usage: Usage::default(),
        model: None,
        flaw: None,
        detail: String::new(),
    };
    Attempt {
        number: 0,
        server: "http://sim-0.invalid".into(),
        seed: 0,
        started_ms: 0,
        seconds: 0.0,
        first_token_seconds: None,
        completion: Some(completion),
        fault: None,
        detail: String::new(),
        raw: Vec::new().into(),
    }
}

#[test]
fn its_example_is_read_and_nothing_in_it_is_complained_about() {
    for kind in Kinds::builtin().iter() {
        let bench = Bench::new();
        let plan = plan(kind, "", &bench).unwrap_or_else(|wrong| panic!("{}: {wrong}", kind.name));
        let stage = plan.stages.iter().find(|stage| stage.kind.name == kind.name).expect(kind.name);
        let mut say = Complaints::default();
        stage.settings.check(&mut say);
        assert!(say.is_empty(), "{}: {:?}", kind.name, say);
    }
}

#[test]
fn a_misspelt_key_is_refused_and_the_right_one_is_suggested() {
    for kind in Kinds::builtin().iter() {
        for key in keys(kind) {
            let wrong = format!("{key}x = 1\n");
            let refused = plan(kind, &wrong, &Bench::new()).expect_err(kind.name).to_string();
            assert!(refused.contains(&format!("`{key}x` is no key of `{}`", kind.name)), "{}: {refused}", kind.name);
            assert!(refused.contains(&format!("did you mean `{key}`?")), "{}: {refused}", kind.name);
        }
    }
}

/// The names of the keys of a kind.
fn keys(kind: &Kind) -> Vec<String> {
    let schema = (kind.schema)(&mut schemars::SchemaGenerator::default()).to_value();
    schema["properties"].as_object().expect(kind.name).keys().cloned().collect()
}

#[test]
fn its_schema_describes_every_key_and_refuses_others() {
    for kind in Kinds::builtin().iter() {
        let schema = (kind.schema)(&mut schemars::SchemaGenerator::default()).to_value();
        assert_eq!(schema["additionalProperties"], false, "{} takes any key", kind.name);
        assert!(schema["description"].is_string(), "{} is not described", kind.name);
        for (key, about) in schema["properties"].as_object().expect(kind.name) {
            assert!(about["description"].is_string(), "{}: `{key}` is not described", kind.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn given_what_it_needs_it_gives_what_it_says_and_ends_when_its_input_ends() {
    for kind in Kinds::builtin().iter() {
        let mut rig = Rig::start(kind, 64, u32::MAX).await;
        let (ended, out) = rig.run(kind).await;
        assert!(matches!(ended, Ended::Drained), "{}: {ended:?}", kind.name);
        assert!(ends_records(kind) || !out.passed.is_empty(), "{} passes nothing on", kind.name);
        for record in &out.passed {
            for thing in kind.needs.iter().chain(kind.gives) {
                assert!(knows(record, *thing), "{}: {} has no {thing:?}", kind.name, record.id);
            }
        }
        rig.nothing_vanished();
    }
}

#[tokio::test(start_paused = true)]
async fn what_goes_in_comes_out_once_passed_around_or_aside() {
    for kind in Kinds::builtin().iter() {
        let mut rig = Rig::start(kind, 64, u32::MAX).await;
        let (_, out) = rig.run(kind).await;
        let all: BTreeSet<u64> = (1..=ROWS as u64).collect();
        if ends_records(kind) {
            let aside = out.rows(kind.name);
            let written: Vec<u64> =
                support::audit::lines(rig.bench.path("out").as_ref()).iter().map(|row| id(row)).collect();
            assert_eq!(written.len() + aside.len(), ROWS, "{}: {written:?} and {aside:?}", kind.name);
            assert_eq!(
                written.into_iter().map(|id| id + 1).chain(aside).collect::<BTreeSet<_>>(),
                all,
                "{}",
                kind.name
            );
        } else {
            assert_eq!(out.rows(kind.name), all, "{}", kind.name);
            let by_itself = rig.door.tally().count(|end| *end != End::Forwarded);
            assert_eq!(by_itself, 0, "{} ended records by itself", kind.name);
        }
        rig.nothing_vanished();
    }
}

#[tokio::test(start_paused = true)]
async fn room_for_one_record_on_every_edge_and_in_memory_is_enough() {
    for kind in Kinds::builtin().iter() {
        let mut rig = Rig::start(kind, 1, ONE_RECORD).await;
        let (ended, _) = rig.run(kind).await;
        assert!(matches!(ended, Ended::Drained), "{}: {ended:?}", kind.name);
        assert_eq!(rig.door.tally().entered, ROWS as u64, "{}", kind.name);
        rig.nothing_vanished();
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_nobody_takes_what_it_gives_and_tells_the_end_of_every_record() {
    for kind in Kinds::builtin().iter() {
        for capacity in [1, 64] {
            let mut rig = Rig::start(kind, capacity, u32::MAX).await;
            rig.passed.take();
            rig.around.take();
            rig.aside.take();
            let mut giving = rig.give(kind.needs).await;
            let ended = rig.ended().await;
            giving.join_next().await;
            let expected = if ends_records(kind) { "Drained" } else { "DownstreamClosed" };
            assert_eq!(format!("{ended:?}"), expected, "{} with room for {capacity}", kind.name);
            rig.nothing_vanished();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_it_lets_everything_out_that_is_inside() {
    for kind in Kinds::builtin().iter() {
        let mut rig = Rig::start(kind, 4, u32::MAX).await;
        rig.stopper.drain(Duration::from_secs(60));
        let (ended, out) = rig.run(kind).await;
        assert!(matches!(ended, Ended::Drained), "{}: {ended:?}", kind.name);
        out.rows(kind.name);
        rig.nothing_vanished();
    }
}
