//! [`Playing`]: one reply in the making, whole or event by event, to its proper end or its mishap.

use super::{
    bodies::DONE,
    draft::{Channel, Place},
    engine::RequestId,
    live::{Body, Live, Lost, Played},
    server::{EVENTS, Fixed, JSON, Job, Mishap},
};
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// A job's place in the engine; dropping it gives the place up.
pub struct Slot {
    live: Arc<Live>,
    /// `None` when answers come at once.
    id: Option<RequestId>,
    ended: Option<oneshot::Receiver<()>>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let (Some(id), Some(_)) = (self.id, &self.ended) else { return };
        self.live.leave(id);
    }
}

impl Slot {
    /// The place of request `id`; `ended` is told when its work is done.
    pub fn new(live: Arc<Live>, id: RequestId, ended: oneshot::Receiver<()>) -> Self {
        Slot { live, id: Some(id), ended: Some(ended) }
    }

    /// The place of a request whose work takes no time.
    pub fn done(live: Arc<Live>) -> Self {
        Slot { live, id: None, ended: None }
    }

    /// Waits until the work is done, or the server is gone.
    async fn finished(&mut self) -> Result<(), Lost> {
        let Some(ended) = &mut self.ended else { return Ok(()) };
        let told = ended.await;
        // Ended or forgotten: there is nothing to give up any more.
        self.ended = None;
        told.map_err(|_| Lost)
    }

    /// Tokens made so far.
    fn tokens_made(&self) -> u32 {
        self.id.map_or(0, |id| self.live.tokens_made(id))
    }
}

/// A job in the middle of being answered.
pub struct Playing {
    live: Arc<Live>,
    job: Job,
    slot: Slot,
    place: Place,
    life: CancellationToken,
}

impl Playing {
    /// A job that has got its place; the reply is lost when `life` ends.
    pub fn new(live: Arc<Live>, job: Job, slot: Slot, life: CancellationToken) -> Self {
        Playing { live, job, slot, place: Place::default(), life }
    }

    /// The reply: at once if it is a stream, else when the work is done.
    ///
    /// # Errors
    /// [`Lost`] when the server goes down before.
    pub async fn play(mut self) -> Result<Played, Lost> {
        if self.job.stream {
            return Ok(Played { status: 200, content_type: EVENTS, body: self.stream() });
        }
        self.slot.finished().await?;
        Ok(self.whole())
    }

    /// The whole reply, the work being done.
    fn whole(self) -> Played {
        let Job { draft, head, mishap, bodies, .. } = &self.job;
        let text = match mishap {
            Some(Mishap::Error(fail)) => {
                let body = bodies.error(fail);
                return Fixed { status: fail.status, content_type: JSON, body }.into();
            }
            _ => bodies.whole(head, draft),
        };
        let mut body = Bytes::from(text);
        match mishap {
            None => {
                self.live.book_completed();
                Played { status: 200, content_type: JSON, body: Body::Whole(body) }
            }
            Some(mishap) => {
                body.truncate(body.len() / 2);
                let lost = (*mishap == Mishap::Reset).then_some(Err(Lost));
                let pieces = stream::iter([Ok(body)].into_iter().chain(lost));
                Played { status: 200, content_type: JSON, body: Body::Pieces(pieces.boxed()) }
            }
        }
    }

    /// The reply as events.
    fn stream(mut self) -> Body {
        if self.slot.id.is_none() {
            let mut events = self.job.bodies.open(&self.job.head);
            let lost = self.end(&mut events);
            if !lost {
                return Body::Whole(events.into());
            }
            return Body::Pieces(stream::iter([Ok(events.into()), Err(Lost)]).boxed());
        }
        let open = self.job.bodies.open(&self.job.head);
        let first = stream::iter((!open.is_empty()).then(|| Ok(Bytes::from(open))));
        let rest = stream::unfold(Step::On(Box::new(self)), |step| async move {
            match step {
                Step::On(playing) => playing.step().await,
                Step::Lost => Some((Err(Lost), Step::Over)),
                Step::Over => None,
            }
        });
        Body::Pieces(first.chain(rest).boxed())
    }

    /// The next events.
    async fn step(mut self: Box<Self>) -> Option<(Result<Bytes, Lost>, Step)> {
        let mut events = String::new();
        while events.is_empty() {
            tokio::select! {
                biased;
                () = self.life.cancelled() => return Some((Err(Lost), Step::Over)),
                ended = self.slot.finished() => {
                    if ended.is_err() {
                        return Some((Err(Lost), Step::Over));
                    }
                    let lost = self.end(&mut events);
                    return Some((Ok(events.into()), if lost { Step::Lost } else { Step::Over }));
                }
                () = self.live.between_pieces() => {}
            }
            // The last token is kept for the end.
            let made = self.slot.tokens_made().min(self.job.work.output_tokens.saturating_sub(1));
            let fresh = made.saturating_sub(self.place.tokens);
            for (channel, text) in self.job.draft.take(&mut self.place, fresh) {
                events += &self.job.bodies.piece(&self.job.head, channel, text);
            }
        }
        Some((Ok(events.into()), Step::On(self)))
    }

    /// Writes the events that are left when the work is done; says whether the connection is lost then.
    fn end(&mut self, events: &mut String) -> bool {
        let Job { draft, head, mishap, bodies, work, .. } = &self.job;
        let left = work.output_tokens.saturating_sub(self.place.tokens);
        let mut pieces: Vec<(Channel, &str)> = draft.take(&mut self.place, left);
        let last = if mishap.is_none() { pieces.pop() } else { None };
        for (channel, text) in pieces {
            *events += &bodies.piece(head, channel, text);
        }
        match mishap {
            None => {
                *events += &bodies.last(head, draft, last);
                if head.include_usage {
                    *events += &bodies.usage(head, draft);
                }
                *events += DONE;
                self.live.book_completed();
            }
            Some(Mishap::Error(fail)) => {
                *events += &bodies.error_event(fail);
                *events += DONE;
            }
            Some(Mishap::Cut | Mishap::Reset) => {}
        }
        *mishap == Some(Mishap::Reset)
    }
}

/// How a stream goes on.
enum Step {
    On(Box<Playing>),
    Lost,
    Over,
}
