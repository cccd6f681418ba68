//! A pipeline inside another program: no file, no sockets, a stage of one's own.
//!
//! ```sh
//! cargo run --example embed
//! ```
//!
//! The servers are SIMULATED, in this process; for real ones, hand `Options::new` an `HttpTransport`.

#![expect(clippy::print_stdout, reason = "an example shows what it did")]

use forebay::{
    Error,
    edge::Route,
    fleet::{FleetSettings, Transport},
    pipeline::{Options, Plan, Run},
    record::{Reason, Record, Rejection},
    sim::{InProcess, SimSettings},
    stage::{
        Built, DispatchSettings, FilterSettings, Knowledge, Parts, ReadSettings, Settings, SinkFormat, SinkSettings,
        TemplateSettings, Transform, ValidateSettings,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Sets rows aside that speak of something.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Without {
    /// What no row may hold.
    word: String,
}

impl Settings for Without {
    const KIND: &'static str = "without";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Row];
    const EXAMPLE: &'static str = "[[stage]]\nkind = \"without\"\nword = \"confidential\"\n";

    fn build(self, _: &Parts) -> Result<Built, Error> {
        Ok(Built::Transform(Arc::new(self)))
    }
}

impl Transform for Without {
    fn apply(&self, record: Record) -> Route {
        if String::from_utf8_lossy(&record.row).contains(&self.word) {
            return Route::Aside(record, Rejection::new(Reason::FilteredOut, format!("it says `{}`", self.word)));
        }
        Route::Pass(record)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("questions.jsonl"), questions())?;

    let sim = SimSettings { servers: 3, model: "demo".to_owned(), instant: true, ..SimSettings::default() };
    let servers = InProcess::start(sim);
    let draft = Plan::draft("embedded")
        .fleet(FleetSettings::new("demo", servers.urls()))
        .stage(ReadSettings::new(path("questions.jsonl")))
        .stage(FilterSettings { keep: "empty_response".to_owned(), others: "sink".to_owned() })
        .stage(Without { word: "confidential".to_owned() })
        .stage(TemplateSettings { temperature: 0.6, ..TemplateSettings::new(4096) })
        .stage(DispatchSettings::default())
        .stage(ValidateSettings::default())
        .stage(SinkSettings { format: SinkFormat::Jsonl, ..SinkSettings::new(path("out")) })
        .run(path("run"));
    let plan = draft.check().map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;

    let transport: Arc<dyn Transport> = Arc::new(servers);
    let summary = Run::prepare(plan, Options::new(Some(transport))).await?.go().await?;
    println!("{}", serde_json::to_string_pretty(&summary)?);
    println!("{}", std::fs::read_to_string(path("out/part-00000.jsonl"))?);
    Ok(())
}

/// Rows in the shape of OpenAI's messages: one has its answer, two want one, one is not to be asked.
fn questions() -> String {
    let turn = |question: &str, answer: &str| {
        let messages = serde_json::json!({ "messages": [
            { "role": "user", "content": question },
            { "role": "assistant", "content": answer },
        ]});
        format!("{messages}\n")
    };
    [
        turn("What is a forebay?", "The pool above a turbine."),
        turn("What does it hold?", ""),
        turn("How much of it?", ""),
        turn("What is in the confidential file?", ""),
    ]
    .concat()
}
