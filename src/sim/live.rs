//! [`Live`]: a simulated server that runs: its scripts played against the engine's time, on tokio's clock.
//!
//! Both faces, sockets and in-process, are thin coats over this.

use super::{
    engine::{Admission, Engine, Gauges, RequestId},
    persona::Persona,
    play::{Playing, Slot},
    server::{EVENTS, Fixed, Job, Ledger, Script, Server},
    settings::SimSettings,
};
use bytes::Bytes;
use futures::{
    future::pending,
    stream::{self, BoxStream, StreamExt},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// The connection is gone: the server went down, or a fault cut it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// A reply, as it comes.
pub struct Played {
    /// The HTTP status.
    pub status: u16,
    /// The value of `content-type`; empty: none is sent.
    pub content_type: &'static str,
    /// The body.
    pub body: Body,
}

/// The body of a reply.
pub enum Body {
    /// It is all there.
    Whole(Bytes),
    /// It comes in pieces.
    Pieces(BoxStream<'static, Result<Bytes, Lost>>),
}

/// A server that runs.
pub struct Live {
    server: Server,
    settings: Arc<SimSettings>,
    clock: Clock,
    state: Mutex<State>,
    /// The driver has to look again: something ends sooner than it thought.
    sooner: Notify,
    up: watch::Sender<bool>,
    completed: AtomicU64,
}

struct State {
    engine: Engine,
    waiting: HashMap<RequestId, oneshot::Sender<()>>,
    next_id: RequestId,
    /// When the driver looks next.
    planned: Option<Duration>,
    /// Ends when the server goes down; a server that comes back has a new one.
    life: CancellationToken,
}

/// The servers' time: tokio's, faster or slower.
#[derive(Debug, Clone, Copy)]
struct Clock {
    start: Instant,
    scale: f64,
}

impl Clock {
    fn now(&self) -> Duration {
        Duration::try_from_secs_f64(self.start.elapsed().as_secs_f64() * self.scale).unwrap_or(Duration::MAX)
    }

    fn at(&self, time: Duration) -> Option<Instant> {
        let real = Duration::try_from_secs_f64(time.as_secs_f64() / self.scale).ok()?;
        self.start.checked_add(real)
    }

    async fn sleep_until(&self, time: Option<Duration>) {
        match time.and_then(|time| self.at(time)) {
            Some(instant) => sleep_until(instant).await,
            None => pending().await,
        }
    }
}

/// Several servers of one kind, and the tasks that let their time pass. Dropping them ends those.
pub struct Servers {
    live: Vec<Arc<Live>>,
    ledger: Arc<Ledger>,
    _drivers: JoinSet<()>,
}

impl Servers {
    /// Starts the servers that `settings` describe; must be called in a tokio runtime.
    pub fn start(settings: SimSettings) -> Self {
        let settings = Arc::new(settings);
        let SimSettings { seed, mean_tokens, sigma, thinking_share, .. } = *settings;
        let persona = Arc::new(Persona::new(seed, mean_tokens, sigma, thinking_share));
        let ledger = Arc::new(Ledger::default());
        let clock = Clock { start: Instant::now(), scale: settings.time_scale };
        let mut drivers = JoinSet::new();
        let live = (0..settings.servers)
            .map(|index| {
                let server = Server::new(index, Arc::clone(&settings), Arc::clone(&persona), Arc::clone(&ledger));
                let live = Arc::new(Live::new(server, settings.clone(), clock, index));
                drivers.spawn(Arc::clone(&live).drive());
                live
            })
            .collect();
        Servers { live, ledger, _drivers: drivers }
    }

    /// The servers, in order.
    pub fn all(&self) -> &[Arc<Live>] {
        &self.live
    }

    /// What was asked of all of them together.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

impl Live {
    fn new(server: Server, settings: Arc<SimSettings>, clock: Clock, index: usize) -> Self {
        let down = server.is_down(Duration::ZERO);
        let life = CancellationToken::new();
        if down {
            life.cancel();
        }
        let engine = Engine::new(settings.capacity(index));
        let state = State { engine, waiting: HashMap::new(), next_id: 0, planned: None, life };
        Live {
            server,
            settings,
            clock,
            state: Mutex::new(state),
            sooner: Notify::new(),
            up: watch::Sender::new(!down),
            completed: AtomicU64::new(0),
        }
    }

    /// Completion requests that could be read.
    pub fn started(&self) -> u64 {
        self.server.started()
    }

    /// Completion requests whose reply was given to its proper end.
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    /// The engine's counters.
    pub fn gauges(&self) -> Gauges {
        let now = self.clock.now();
        self.state().engine.gauges(now)
    }

    /// Whether the server is up, and a way to wait until it is or is not.
    pub fn up(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    /// Ends when the server next goes down; has ended while it is.
    pub fn life(&self) -> CancellationToken {
        self.state().life.clone()
    }

    /// The server dies: all its connections are lost, and its engine forgets everything.
    pub fn kill(&self) {
        {
            let mut state = self.state();
            state.life.cancel();
            state.waiting.clear();
            state.engine = Engine::new(self.settings.capacity(self.server.index()));
        }
        self.up.send_replace(false);
    }

    /// The server is there again, with nothing to do.
    pub fn revive(&self) {
        {
            let mut state = self.state();
            if state.life.is_cancelled() {
                state.life = CancellationToken::new();
            }
        }
        self.up.send_replace(true);
    }

    /// Answers one request. Dropping the future or the body ends the request, as a closed connection does.
    ///
    /// # Errors
    /// [`Lost`] when the server is down, goes down before the head of the reply, or a fault does as if it had.
    pub async fn handle(self: &Arc<Self>, method: &str, path: &str, body: &[u8]) -> Result<Played, Lost> {
        let life = self.life();
        if life.is_cancelled() {
            return Err(Lost);
        }
        match self.server.answer(method, path, body, self.clock.now(), || self.gauges()) {
            Script::Reply(fixed) => Ok(fixed.into()),
            Script::Silence { head: true } => {
                let silence = stream::once(async move {
                    life.cancelled().await;
                    Err(Lost)
                });
                Ok(Played { status: 200, content_type: EVENTS, body: Body::Pieces(silence.boxed()) })
            }
            Script::Silence { head: false } => {
                life.cancelled().await;
                Err(Lost)
            }
            Script::Job(job) => self.play(*job, life).await,
        }
    }

    /// Does the work of a job and gives the reply.
    async fn play(self: &Arc<Self>, job: Job, life: CancellationToken) -> Result<Played, Lost> {
        let Some(slot) = self.admit(&job) else { return Ok(self.server.queue_full(job.stream).into()) };
        Playing::new(Arc::clone(self), job, slot, life).play().await
    }

    /// Gives the job to the engine; `None` if the queue is full.
    fn admit(self: &Arc<Self>, job: &Job) -> Option<Slot> {
        let now = self.clock.now();
        let mut state = self.state();
        if self.settings.instant {
            state.engine.book(job.work);
            return Some(Slot::done(Arc::clone(self)));
        }
        let id = state.next_id;
        state.next_id += 1;
        if state.engine.arrive(now, id, job.work) == Admission::Refused {
            return None;
        }
        let (tell, ended) = oneshot::channel();
        state.waiting.insert(id, tell);
        self.settle(state, now);
        Some(Slot::new(Arc::clone(self), id, ended))
    }

    /// Tells those whose work has ended by `now`, and the driver if it has to look sooner than it thought.
    fn settle(&self, mut state: MutexGuard<'_, State>, now: Duration) {
        for (_, id) in state.engine.complete(now) {
            if let Some(tell) = state.waiting.remove(&id) {
                // Whoever asked may have gone in this very moment.
                let _ = tell.send(());
            }
        }
        let next = state.engine.next_completion().map(|(at, _)| at);
        if next.is_some_and(|next| state.planned.is_none_or(|planned| next < planned)) {
            self.sooner.notify_one();
        }
    }

    /// Lets time pass: work ends when it is due, and the server goes down and comes back as its faults say.
    async fn drive(self: Arc<Self>) {
        let mut down = self.server.is_down(Duration::ZERO);
        let mut now = Duration::ZERO;
        loop {
            let change = self.server.next_change(now);
            let next = {
                let mut state = self.state();
                let due = state.engine.next_completion().map(|(at, _)| at);
                let next = [due, change].into_iter().flatten().min();
                state.planned = next;
                next
            };
            tokio::select! {
                () = self.sooner.notified() => now = self.clock.now().max(now),
                // The clock's rounding must not show a time before the one that was waited for.
                () = self.clock.sleep_until(next) => now = self.clock.now().max(next.unwrap_or(now)),
            }
            self.settle(self.state(), now);
            if self.server.is_down(now) != down {
                down = !down;
                if down { self.kill() } else { self.revive() }
            }
        }
    }

    /// Gives up the place of a request in the engine.
    pub(super) fn leave(&self, id: RequestId) {
        let now = self.clock.now();
        let mut state = self.state();
        state.waiting.remove(&id);
        state.engine.cancel(now, id);
        self.settle(state, now);
    }

    /// Tokens that a request has made so far.
    pub(super) fn tokens_made(&self, id: RequestId) -> u32 {
        let now = self.clock.now();
        self.state().engine.tokens_made(now, id)
    }

    /// Books a reply that was given to its proper end.
    pub(super) fn book_completed(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for as long as there is between two pieces of a stream.
    pub(super) async fn between_pieces(&self) {
        let next = self.clock.now().saturating_add(self.settings.stream_interval());
        self.clock.sleep_until(Some(next)).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Fixed> for Played {
    fn from(fixed: Fixed) -> Self {
        Played { status: fixed.status, content_type: fixed.content_type, body: Body::Whole(fixed.body.into()) }
    }
}
