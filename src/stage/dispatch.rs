//! `dispatch`: asks the fleet, holds the judge, and sends on what came back.

mod asked;
mod journaled;
mod leaving;
mod task;

use super::{Built, Ended, Judge, Knowledge, Parts, Stage};
use crate::{
    edge::{Closed, Inlet, Outlet},
    error::{Error, ErrorKind},
    fleet::{Fleet, Landed, Slot, Terms, Transport, probe},
    journal::Answers,
    record::{End, Reason, Rejection},
    setting::Complaints,
    stop::{Phase, Stop},
};
use asked::{Asked, Bounds, Next, Sent};
use futures::future::BoxFuture;
use leaving::Leaving;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};
use task::Task;
use tokio::{
    task::{Id, JoinSet},
    time::{Instant, sleep_until},
};

/// Sends each request to the server that will take it soonest, and waits for the answer.
///
/// A server takes the next record when it has a free slot, so a slow server slows only itself. Trouble of a server
/// (refused, 5xx, overloaded, silent) costs the server a rest and sends its records to others; a reply that is broken
/// costs the record a try; an answer that `validate` sends back is asked again with a new seed, by any server.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether replies are streamed. Streaming shows progress, so that a server that hangs is told from one that thinks.
    #[schemars(extend("x-content" = false))]
    pub stream: bool,
    /// How often a record may meet a broken reply (without its end, not JSON, aborted) before it counts as failed. A
    /// reply that was lost with its connection is the server's trouble.
    #[schemars(extend("x-content" = false))]
    pub tries: u32,
    /// How many servers may fail under a record before it counts as failed: a row that makes servers crash must end.
    #[schemars(extend("x-content" = false))]
    pub moves: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { stream: true, tries: 3, moves: 8 }
    }
}

impl super::Settings for Settings {
    const KIND: &'static str = "dispatch";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Request];
    const GIVES: &'static [Knowledge] = &[Knowledge::Completion];
    const MOVES_RECORDS: bool = true;
    const EXAMPLE: &'static str = "[[stage]]\nkind = \"dispatch\"\n";

    fn check(&self, say: &mut Complaints) {
        if self.tries == 0 {
            say.about("tries", "must be at least 1");
        }
        if self.moves == 0 {
            say.about("moves", "must be at least 1");
        }
    }

    fn build(self, parts: &Parts) -> Result<Built, Error> {
        let (Some(fleet), Some(transport)) = (&parts.fleet, &parts.transport) else {
            return Err(Error::new(ErrorKind::FixPipeline, "`dispatch` needs servers: add a [fleet] table"));
        };
        Ok(Built::Stage(Box::new(Dispatch {
            terms: Arc::new(fleet.terms(self.stream)),
            fleet: Arc::clone(fleet),
            transport: Arc::clone(transport),
            judge: Arc::new(parts.judge.clone()),
            answers: parts.answers.clone(),
            stop: parts.stop.clone(),
            bounds: Bounds { tries: self.tries, moves: self.moves, retries: parts.judge.retries() },
            tasks: JoinSet::new(),
            flights: HashMap::new(),
            again: VecDeque::new(),
            leaving: Leaving::default(),
            suspects: VecDeque::new(),
        })))
    }
}

struct Dispatch {
    fleet: Arc<Fleet>,
    transport: Arc<dyn Transport>,
    judge: Arc<Judge>,
    answers: Option<Answers>,
    stop: Stop,
    terms: Arc<Terms>,
    bounds: Bounds,
    /// Every request is a task of its own: a full outlet then stops new requests, not the reading of replies.
    tasks: JoinSet<Done>,
    /// What flies, by its task: the records stay here, so that no way a task can end loses one.
    flights: HashMap<Id, Flight>,
    /// Records to be asked again, before any new one.
    again: VecDeque<Asked>,
    /// Records that wait for room in the outlet. Answers that come meanwhile are taken in and journaled; new records
    /// are not, so that these are never more than have been in flight.
    leaving: Leaving,
    /// Records under which servers have failed again and again. One of them may be what makes servers crash, and each
    /// crash takes down what flies beside it: asked one at a time, the others come through.
    suspects: VecDeque<Asked>,
}

/// While so many suspects wait, no new records are taken.
const MOST_SUSPECTS: usize = 64;

/// An attempt under way.
struct Flight {
    asked: Asked,
    slot: Slot,
    seed: u64,
    started_ms: u64,
}

/// How a task ended.
enum Done {
    Asked { landed: Box<Landed>, objection: Option<Rejection> },
    Probed { server: usize, result: Result<(), crate::fleet::Fault> },
}

impl Stage for Dispatch {
    fn run(self: Box<Self>, inlet: Inlet, outlet: Outlet) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            let mut dispatch = *self;
            let ended = dispatch.work(&inlet, &outlet).await;
            dispatch.tasks.shutdown().await;
            dispatch.give_up();
            while let Some(sent) = dispatch.leaving.next(&outlet).await {
                if let Err(Closed(record)) = sent {
                    record.ticket.tell(End::Remaining);
                }
            }
            while let Some(record) = inlet.next().await {
                record.ticket.tell(End::Remaining);
            }
            ended
        })
    }
}

impl Dispatch {
    async fn work(&mut self, inlet: &Inlet, outlet: &Outlet) -> Ended {
        let mut input_open = true;
        loop {
            let phase = self.stop.phase();
            if phase == Phase::Running {
                while let Some((server, url)) = self.fleet.take_probe() {
                    let (transport, fleet) = (Arc::clone(&self.transport), Arc::clone(&self.fleet));
                    self.tasks.spawn(async move {
                        Done::Probed { server, result: probe(transport.as_ref(), &url, &fleet).await }
                    });
                }
                if !self.flights.values().any(|flight| flight.asked.is_suspect(&self.bounds))
                    && let Some(asked) = self.suspects.pop_front()
                {
                    match self.fleet.take_slot(asked.avoid) {
                        Some(slot) => self.ask(asked, slot),
                        None => self.suspects.push_front(asked),
                    }
                }
                while let Some(asked) = self.again.pop_front() {
                    match self.fleet.take_slot(asked.avoid) {
                        Some(slot) => self.ask(asked, slot),
                        None => {
                            self.again.push_front(asked);
                            break;
                        }
                    }
                }
            } else {
                input_open = false;
                self.leave_waiting();
            }
            let waiting = self.again.len() + self.suspects.len();
            if !input_open && waiting == 0 && self.flights.is_empty() {
                return Ended::Drained;
            }
            // One record may wait here for a slot: only by taking is it known that there is another one, and a run
            // that has nothing left to ask must end also when no server is up.
            let has_room = self.again.is_empty() && self.leaving.is_empty() && self.suspects.len() < MOST_SUSPECTS;
            let wants_input = input_open && has_room;
            let wakes = match phase {
                Phase::Draining(until) => Some(until),
                Phase::Running => self.fleet.next_change(),
            };
            tokio::select! {
                biased;
                Some(sent) = self.leaving.next(outlet) => {
                    if let Err(Closed(record)) = sent {
                        record.ticket.tell(End::Remaining);
                        return Ended::DownstreamClosed;
                    }
                }
                Some(joined) = self.tasks.join_next_with_id() => {
                    let (id, done) = match joined {
                        Ok((id, done)) => (id, Some(done)),
                        Err(error) => (error.id(), None),
                    };
                    if let Err(ended) = self.landed(id, done, outlet).await {
                        return ended;
                    }
                }
                () = self.stop.changed() => {}
                record = inlet.next(), if wants_input => match record {
                    Some(record) => {
                        if let Err(ended) = self.take(record, outlet).await {
                            return ended;
                        }
                    }
                    None => input_open = false,
                },
                () = sleep_until(wakes.unwrap_or_else(Instant::now)), if wakes.is_some() => {
                    if phase != Phase::Running {
                        return Ended::Drained;
                    }
                    if let Some(error) = self.fleet.given_up() {
                        return Ended::Failed(error);
                    }
                }
            }
        }
    }

    /// Sends one attempt on its way.
    fn ask(&mut self, mut asked: Asked, slot: Slot) {
        let Some(request) = asked.record.request.clone() else {
            // The plan has checked that a request is given; a custom stage may still have lost it.
            self.fleet.give_back(slot);
            asked.record.ticket.tell(End::Failed(Reason::NoPrompt));
            return;
        };
        let number = asked.attempts;
        asked.attempts += 1;
        let seed = asked.record.id.seed(request.run_seed, number);
        let copy = (self.judge.retries() > 0).then(|| asked.record.copy());
        let flight = Flight { started_ms: crate::clock::unix_ms(), seed, slot, asked };
        let task = Task {
            transport: Arc::clone(&self.transport),
            server: Arc::clone(&flight.slot.url),
            terms: Arc::clone(&self.terms),
            judge: Arc::clone(&self.judge),
            request,
            seed,
            copy,
        };
        let handle = self.tasks.spawn(task.run());
        self.flights.insert(handle.id(), flight);
    }

    /// Deals with a task that has ended. `done` is `None` if it panicked.
    async fn landed(&mut self, id: Id, done: Option<Done>, outlet: &Outlet) -> Result<(), Ended> {
        let (landed, objection) = match done {
            Some(Done::Asked { landed, objection }) => (*landed, objection),
            Some(Done::Probed { server, result }) => {
                self.fleet.probed(server, result);
                return Ok(());
            }
            None => {
                if let Some(flight) = self.flights.remove(&id) {
                    self.fleet.give_back(flight.slot);
                    flight.asked.record.ticket.tell(End::Remaining);
                }
                return Err(Ended::Failed(Error::new(ErrorKind::Bug, "a request's task panicked")));
            }
        };
        let Some(flight) = self.flights.remove(&id) else { return Ok(()) };
        let Flight { asked, slot, seed, started_ms } = flight;
        let request = asked.request;
        let sent = Sent { server: slot.server, url: Arc::clone(&slot.url), seed, started_ms };
        let policy = self.fleet.landed(slot, &landed);
        match asked.next(sent, landed, policy, objection, &self.bounds) {
            Next::Again(asked) if self.stop.draining() => asked.record.ticket.tell(End::Remaining),
            Next::Again(asked) => {
                self.fleet.count_retry();
                let queue = if asked.is_suspect(&self.bounds) { &mut self.suspects } else { &mut self.again };
                queue.push_back(asked);
            }
            Next::Leave(route) => self.leave(route, request, outlet).await?,
        }
        Ok(())
    }

    /// Tells the ends of the records that are still here.
    fn give_up(&mut self) {
        for (_, flight) in self.flights.drain() {
            self.fleet.give_back(flight.slot);
            flight.asked.record.ticket.tell(End::Remaining);
        }
        self.leave_waiting();
    }

    /// Tells the ends of the records that wait to be asked again.
    fn leave_waiting(&mut self) {
        let waiting = self.again.drain(..).chain(self.suspects.drain(..));
        waiting.for_each(|asked| asked.record.ticket.tell(End::Remaining));
    }
}
