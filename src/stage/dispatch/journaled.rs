//! How records come into `dispatch` and leave it: past the journal.

use super::{Asked, Dispatch};
use crate::{
    edge::{Outlet, Route},
    fleet::{Terms, wire},
    journal::{Entry, LogEnded},
    record::{End, Record, Request},
    stage::Ended,
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

impl Dispatch {
    /// Takes a new record in. One that an earlier session has asked leaves at once, with the answer it got.
    pub(super) async fn take(&mut self, mut record: Record, outlet: &Outlet) -> Result<(), Ended> {
        let request = record.request.as_ref().map_or(0, |request| fingerprint(request, &self.terms));
        let found = match &self.answers {
            Some(answers) => answers.find(&record, request).await,
            None => Ok(None),
        };
        match found {
            Ok(None) => self.again.push_back(Asked::new(record, request)),
            Ok(Some(entry)) => {
                self.fleet.count_recovered();
                record.attempts = entry.attempts;
                let route = match entry.aside {
                    None => Route::Pass(record),
                    Some(rejection) => Route::Aside(record, rejection),
                };
                self.leaving.push(route, outlet);
            }
            Err(error) => {
                record.ticket.tell(End::Remaining);
                return Err(Ended::Failed(error));
            }
        }
        Ok(())
    }

    /// Lets a record go that has its answer, or will get none. In a second at most, a crash does not cost a request more.
    pub(super) async fn leave(&mut self, route: Route, request: u64, outlet: &Outlet) -> Result<(), Ended> {
        let mut kept = Ok(());
        if let Some(answers) = &self.answers {
            let entry = match &route {
                Route::Pass(record) | Route::Around(record) => Entry::new(record, request, None),
                Route::Aside(record, rejection) => Entry::new(record, request, Some(rejection)),
            };
            kept = answers.keep(entry).await;
        }
        // Also when the log has failed: that ends the run, and what is here may still be committed.
        self.leaving.push(route, outlet);
        kept.map_err(|LogEnded| Ended::DownstreamClosed)
    }
}

/// What is asked, as a hash: model, route, body and the run's seed. How the reply is to be sent does not count.
fn fingerprint(request: &Request, terms: &Terms) -> u64 {
    let body = wire::encode(request, &terms.model, request.run_seed, false);
    xxh3_64_with_seed(&body, xxh3_64(request.path.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        edge::{self, Inlet},
        fleet::Fleet,
        journal::{Answers, RunDir},
        record::{Door, RecordId, Thinking},
        sim::{InProcess, SimSettings},
        stage::{Built, Judge, Parts, Settings as _, dispatch::Settings},
        stop::Stopper,
        store::Place,
    };
    use serde_json::json;
    use std::{sync::Arc, time::Duration};
    use tokio::{task::JoinSet, time::sleep};

    fn request(prompt: &str) -> Request {
        let json = json!({"messages": [{"role": "user", "content": prompt}], "max_tokens": 100});
        Request {
            path: "/v1/chat/completions",
            body: json.as_object().expect("an object").clone(),
            thinking: Thinking::Unset,
            max_tokens: 100,
            run_seed: 0,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_journaled_also_while_nobody_takes_the_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::parse(folder.path().to_str().expect("utf-8")).expect("a place");
        let run_dir = Arc::new(RunDir::open(place).await.expect("opens"));
        let (answers, log) = Answers::open(&run_dir).await.expect("opens");
        let servers = InProcess::start(SimSettings::default());
        let fleet = format!("model = \"simulated\"\nservers = [\"{}\"]", servers.urls()[0]);
        let (stopper, stop) = Stopper::new();
        let parts = Parts {
            door: Door::new(1 << 20),
            fleet: Some(Arc::new(Fleet::new(toml::from_str(&fleet).expect("settings")))),
            transport: Some(Arc::new(servers)),
            run_dir: Arc::clone(&run_dir),
            answers: Some(answers),
            stop,
            seed: 0,
            limit: None,
            judge: Judge::default(),
            progress: Arc::default(),
        };
        let Built::Stage(dispatch) = Settings::default().build(&parts).expect("builds") else { panic!("a stage") };
        let (given, inlet) = edge::edge(8);
        let (outlet, _untaken) = edge::edge(1);
        let (aside, _rejected) = edge::aside_edge(1);
        let source = Outlet::new(given, None, aside.clone(), Arc::default());
        let outlet = Outlet::new(outlet, None, aside, Arc::default());
        for row in 1..=8 {
            let id = RecordId::new("a.jsonl", row, b"{}");
            let mut record = Record { id, ..Record::unbound("{}") };
            record.request = Some(Arc::new(request(&format!("Question {row}?"))));
            source.pass(record).await.expect("there is room");
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(log.run().await) });
        tasks.spawn(async move { drop(dispatch.run(Inlet::new(inlet, Arc::default()), outlet).await) });
        sleep(Duration::from_secs(60)).await;
        tasks.shutdown().await;
        let (answers, _log) = Answers::open(&run_dir).await.expect("opens");
        assert_eq!(answers.recovered(), 8);
        drop(stopper);
    }

    #[test]
    fn a_request_is_known_by_all_that_shapes_its_answer() {
        let terms = |model: &str, stream| Terms { model: model.into(), stream, stall: Duration::ZERO };
        let known = fingerprint(&request("a"), &terms("m", true));
        assert_eq!(known, fingerprint(&request("a"), &terms("m", false)));
        let completions = Request { path: "/v1/completions", ..request("a") };
        let seeded = Request { run_seed: 1, ..request("a") };
        for (request, model) in [(request("b"), "m"), (request("a"), "n"), (completions, "m"), (seeded, "m")] {
            assert_ne!(known, fingerprint(&request, &terms(model, true)));
        }
    }
}
