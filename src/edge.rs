//! The edge: the bounded channel between two stages, and the account it keeps.
//!
//! This is the only file that knows `async_channel`. Backpressure is nothing but these bounds: a stage that waits
//! for room waits because the stages after it do, up to the servers.

use crate::record::{End, Reason, Record, Rejection};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// What a stage does with a record.
#[derive(Debug)]
pub enum Route {
    /// On to the next stage.
    Pass(Record),
    /// Round the next stages, to the one that `others` names.
    Around(Record),
    /// Out of the chain, with the reason.
    Aside(Record, Rejection),
}

/// Where a stage takes its records from.
#[derive(Debug, Clone)]
pub struct Inlet {
    records: Arc<Receiver>,
    account: Arc<Account>,
}

/// Where a stage puts its records: on, round, or aside. Counting happens in here.
#[derive(Debug, Clone)]
pub struct Outlet {
    pass: async_channel::Sender<Record>,
    around: Option<async_channel::Sender<Record>>,
    aside: async_channel::Sender<(Record, Rejection)>,
    account: Arc<Account>,
}

/// The end of an edge that takes records; an [`Outlet`] is made of these.
#[derive(Debug, Clone)]
pub struct Sender(async_channel::Sender<Record>);

/// The end of an edge that gives records; an [`Inlet`] is made of one.
///
/// A stage that ends early leaves records behind in its edge: when this is dropped, it tells that they remain to be
/// done, so that no stage has to.
#[derive(Debug)]
pub struct Receiver(async_channel::Receiver<Record>);

/// Where every stage's rejected records end up.
#[derive(Debug, Clone)]
pub struct AsideSender(async_channel::Sender<(Record, Rejection)>);

/// What the aside writer reads. Dropped early, it does as [`Receiver`] does.
#[derive(Debug)]
pub struct AsideInlet(async_channel::Receiver<(Record, Rejection)>);

/// The stage after this one has gone; there is nobody to give records to.
///
/// It hands the record back, so that its end can still be told.
#[derive(Debug)]
pub struct Closed(pub Box<Record>);

/// What one stage took, gave and waited for. Read by `watch` and the summary, never by a stage.
#[derive(Debug, Default)]
pub struct Account {
    taken: AtomicU64,
    passed: AtomicU64,
    around: AtomicU64,
    aside: AtomicU64,
    /// By reason: the first such rejection, and how many there were.
    rejections: Mutex<BTreeMap<Reason, (Rejection, u64)>>,
    rejected: Notify,
    waited_for_input_us: AtomicU64,
    waited_for_room_us: AtomicU64,
    ran_us: AtomicU64,
}

/// An edge of `capacity` records.
pub fn edge(capacity: usize) -> (Sender, Receiver) {
    let (sender, receiver) = async_channel::bounded(capacity.max(1));
    (Sender(sender), Receiver(receiver))
}

/// The edge to the aside writer.
pub fn aside_edge(capacity: usize) -> (AsideSender, AsideInlet) {
    let (sender, receiver) = async_channel::bounded(capacity.max(1));
    (AsideSender(sender), AsideInlet(receiver))
}

impl Inlet {
    /// The inlet of a stage that keeps `account`.
    pub fn new(receiver: Receiver, account: Arc<Account>) -> Self {
        Inlet { records: Arc::new(receiver), account }
    }

    /// The inlet of the first stage: it has ended before it began.
    pub fn empty() -> Self {
        Inlet::new(edge(1).1, Arc::default())
    }

    /// The next record, or `None` when the stages before have ended and nothing is left.
    ///
    /// Cancel safe: a future dropped before it is ready takes nothing.
    pub async fn next(&self) -> Option<Record> {
        let record = match self.records.0.try_recv() {
            Ok(record) => record,
            Err(async_channel::TryRecvError::Closed) => return None,
            Err(async_channel::TryRecvError::Empty) => {
                let _waiting = Waiting::new(&self.account.waited_for_input_us);
                self.records.0.recv().await.ok()?
            }
        };
        self.account.taken.fetch_add(1, Ordering::Relaxed);
        Some(record)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // Closed first: what a sender is just putting in is either seen here or handed back to it.
        self.0.close();
        while let Ok(record) = self.0.try_recv() {
            record.ticket.tell(End::Remaining);
        }
    }
}

impl Drop for AsideInlet {
    fn drop(&mut self) {
        self.0.close();
        while let Ok((record, _)) = self.0.try_recv() {
            record.ticket.tell(End::Remaining);
        }
    }
}

impl AsideInlet {
    /// The next rejected record, or `None` when every stage has ended.
    pub async fn next(&self) -> Option<(Record, Rejection)> {
        self.0.recv().await.ok()
    }
}

impl Outlet {
    /// The outlet of a stage that keeps `account`. `around` is where `others` leads, if anywhere.
    pub fn new(pass: Sender, around: Option<Sender>, aside: AsideSender, account: Arc<Account>) -> Self {
        Outlet { pass: pass.0, around: around.map(|sender| sender.0), aside: aside.0, account }
    }

    /// Sends a record where its route says.
    pub async fn send(&self, route: Route) -> Result<(), Closed> {
        match route {
            Route::Pass(record) => self.pass(record).await,
            Route::Around(record) => self.around(record).await,
            Route::Aside(record, rejection) => self.aside(record, rejection).await,
        }
    }

    /// Sends a record on to the next stage; waits while there is no room.
    pub async fn pass(&self, record: Record) -> Result<(), Closed> {
        put(&self.pass, record, &self.account, |record| Closed(Box::new(record))).await?;
        self.account.passed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends a record round the next stages; without such a way, on.
    pub async fn around(&self, mut record: Record) -> Result<(), Closed> {
        record.forwarded = true;
        let way = self.around.as_ref().unwrap_or(&self.pass);
        put(way, record, &self.account, |record| Closed(Box::new(record))).await?;
        self.account.around.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends a record out of the chain.
    pub async fn aside(&self, record: Record, rejection: Rejection) -> Result<(), Closed> {
        let booked = rejection.clone();
        put(&self.aside, (record, rejection), &self.account, |(record, _)| Closed(Box::new(record))).await?;
        self.account.book(booked);
        Ok(())
    }
}

/// Puts `item` into the channel, and books the time it had to wait for room.
async fn put<T>(
    way: &async_channel::Sender<T>,
    item: T,
    account: &Account,
    closed: impl FnOnce(T) -> Closed,
) -> Result<(), Closed> {
    let item = match way.try_send(item) {
        Ok(()) => return Ok(()),
        Err(async_channel::TrySendError::Closed(item)) => return Err(closed(item)),
        Err(async_channel::TrySendError::Full(item)) => item,
    };
    let _waiting = Waiting::new(&account.waited_for_room_us);
    way.send(item).await.map_err(|refused| closed(refused.into_inner()))
}

/// Books the time from its making to its end, also when the waiting future is dropped.
struct Waiting<'a> {
    since: Instant,
    book: &'a AtomicU64,
}

impl<'a> Waiting<'a> {
    fn new(book: &'a AtomicU64) -> Self {
        Waiting { since: Instant::now(), book }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.book.fetch_add(waited, Ordering::Relaxed);
    }
}

impl Account {
    /// Records taken from the stage before.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Records sent on to the next stage.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Records sent round the next stages.
    pub fn around(&self) -> u64 {
        self.around.load(Ordering::Relaxed)
    }

    /// Records set aside.
    pub fn aside(&self) -> u64 {
        self.aside.load(Ordering::Relaxed)
    }

    /// What records were set aside for: of each reason the first rejection, and how many there were.
    pub fn rejections(&self) -> Vec<(Rejection, u64)> {
        self.rejections.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn book(&self, rejection: Rejection) {
        let mut rejections = self.rejections.lock().unwrap_or_else(PoisonError::into_inner);
        rejections.entry(rejection.reason).or_insert((rejection, 0)).1 += 1;
        self.aside.fetch_add(1, Ordering::Relaxed);
        self.rejected.notify_one();
    }

    /// Waits until a record has been set aside since the last time. One may wait.
    pub async fn rejection(&self) {
        self.rejected.notified().await;
    }

    /// Books how long the stage ran, when it has ended.
    pub fn ran(&self, time: Duration) {
        self.ran_us.store(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How long the stage ran; zero while it still does.
    pub fn ran_for(&self) -> Duration {
        Duration::from_micros(self.ran_us.load(Ordering::Relaxed))
    }

    /// How long the stage's workers, all together, had nothing to take.
    pub fn waited_for_input(&self) -> Duration {
        Duration::from_micros(self.waited_for_input_us.load(Ordering::Relaxed))
    }

    /// How long the stage's workers, all together, had nowhere to put what they had done.
    pub fn waited_for_room(&self) -> Duration {
        Duration::from_micros(self.waited_for_room_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Door, Reason, RecordId};

    fn chain(capacity: usize) -> (Outlet, Inlet, AsideInlet, Arc<Account>) {
        let account = Arc::new(Account::default());
        let (sender, receiver) = edge(capacity);
        let (aside, rejected) = aside_edge(1);
        let outlet = Outlet::new(sender, None, aside, Arc::clone(&account));
        (outlet, Inlet::new(receiver, Arc::clone(&account)), rejected, account)
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_without_room_is_booked_on_the_sender() {
        let (outlet, inlet, _rejected, account) = chain(1);
        outlet.pass(Record::unbound("{}")).await.expect("there is room");
        let full = tokio::spawn(async move { outlet.pass(Record::unbound("{}")).await });
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(inlet.next().await.is_some());
        full.await.expect("the task ends").expect("there is room now");
        assert_eq!(account.waited_for_room().as_secs(), 3);
        assert_eq!(account.passed(), 2);
    }

    #[tokio::test]
    async fn a_closed_edge_hands_the_record_back() {
        let (outlet, inlet, _rejected, account) = chain(4);
        drop(inlet);
        let Err(Closed(record)) = outlet.pass(Record::unbound("{\"a\":1}")).await else { panic!("nobody takes it") };
        assert_eq!(&record.row[..], b"{\"a\":1}");
        assert_eq!(account.passed(), 0);
    }

    #[tokio::test]
    async fn records_that_nobody_took_remain_to_be_done() {
        let door = Door::new(100);
        let (outlet, inlet, rejected, _account) = chain(4);
        for row in 1..=3 {
            let id = RecordId::new("t.jsonl", row, b"{}");
            let ticket = door.enter(id.clone(), 2).await;
            let record = Record::new(id, "{}".into(), Arc::default(), ticket);
            match row {
                3 => outlet.aside(record, Reason::Empty.into()).await.expect("there is room"),
                _ => outlet.pass(record).await.expect("there is room"),
            }
        }
        drop(inlet.clone());
        assert_eq!(door.tally().ends.len(), 0, "another worker may still take them");
        drop((inlet, rejected));
        assert_eq!(door.tally().ends[&End::Remaining], 3);
    }

    #[tokio::test]
    async fn the_first_stage_has_no_input() {
        assert!(Inlet::empty().next().await.is_none());
    }
}
