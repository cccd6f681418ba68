//! The engine against the formula it is made from.

use super::*;
use proptest::prelude::*;

fn capacity(max_running: usize) -> Capacity {
    Capacity { peak: 4000.0, half: 24.0, prefill: 10_000.0, max_running, max_queued: None }
}

fn work(prompt_tokens: u32, output_tokens: u32) -> Work {
    Work { prompt_tokens, output_tokens, cost: 1.0 }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[test]
fn a_batch_of_equals_ends_together_when_the_formula_says() {
    let mut engine = Engine::new(capacity(8));
    for id in 0..8 {
        assert_eq!(engine.arrive(Duration::ZERO, id, work(0, 1000)), Admission::Running);
    }
    // 8 requests share 4000 · 8 / 32 = 1000 tokens/s, so 8000 tokens take 8 s.
    let ended = engine.complete(seconds(9.0));
    assert_eq!(ended.len(), 8);
    assert!(ended.iter().all(|(at, _)| (at.as_secs_f64() - 8.0).abs() < 1e-6), "{ended:?}");
}

#[test]
fn reading_a_prompt_holds_all_decoding_up() {
    let mut engine = Engine::new(capacity(8));
    engine.arrive(Duration::ZERO, 1, work(0, 160));
    engine.arrive(Duration::ZERO, 2, work(5000, 320));
    // Half a second of reading, then two requests at 4000 / 26 tokens/s each.
    let (at, id) = engine.next_completion().expect("two run");
    assert_eq!(id, 1);
    assert!((at.as_secs_f64() - (0.5 + 160.0 * 26.0 / 4000.0)).abs() < 1e-6, "{at:?}");
}

#[test]
fn a_cancelled_request_frees_its_slot_for_the_one_that_waits() {
    let mut engine = Engine::new(capacity(1));
    engine.arrive(Duration::ZERO, 1, work(0, 1600));
    assert_eq!(engine.arrive(Duration::ZERO, 2, work(0, 160)), Admission::Queued);
    assert_eq!(engine.cancel(seconds(1.0), 1), 160, "one alone makes 160 tokens/s");
    assert_eq!(engine.complete(seconds(2.0)), vec![(seconds(2.0), 2)]);
    let gauges = engine.gauges(seconds(2.0));
    assert_eq!((gauges.generation_tokens, gauges.finished_tokens, gauges.cancelled), (320, 160, 1));
}

#[test]
fn a_full_queue_refuses() {
    let mut engine = Engine::new(Capacity { max_queued: Some(1), ..capacity(1) });
    assert_eq!(engine.arrive(Duration::ZERO, 1, work(0, 10)), Admission::Running);
    assert_eq!(engine.arrive(Duration::ZERO, 2, work(0, 10)), Admission::Queued);
    assert_eq!(engine.arrive(Duration::ZERO, 3, work(0, 10)), Admission::Refused);
    assert_eq!(engine.cancel(Duration::ZERO, 3), 0);
    assert_eq!(engine.complete(seconds(10.0)).len(), 2);
}

#[test]
fn a_costly_request_goes_slower_than_its_neighbour() {
    let mut engine = Engine::new(capacity(8));
    engine.arrive(Duration::ZERO, 1, work(0, 100));
    engine.arrive(Duration::ZERO, 2, Work { cost: 4.0, ..work(0, 100) });
    let (at, _) = engine.next_completion().expect("two run");
    assert_eq!(engine.tokens_made(at - Duration::from_millis(1), 1), 99);
    assert_eq!(engine.tokens_made(at, 2), 25);
}

proptest! {
    /// Nothing is made that was not asked for, all that was asked for is made, first come is first served, and the
    /// time is the integral of the speed.
    #[test]
    fn work_is_conserved_and_nobody_starves(
        arrivals in prop::collection::vec((0u64..3000, 0u32..400, 0u32..900), 1..60),
        max_running in 1usize..9,
    ) {
        let mut engine = Engine::new(capacity(max_running));
        let mut now = Duration::ZERO;
        let mut busy = 0.0;
        let mut asked = 0;
        let mut read = 0;
        let mut ended = Vec::new();
        // Walks from event to event and adds up what the formula says was made between them.
        let mut walk = |engine: &mut Engine, to: Duration, from: Duration, ended: &mut Vec<_>| {
            let mut at = from;
            while at < to {
                let next = engine.next_completion().map_or(to, |(next, _)| next.min(to));
                let batch = engine.running.len() as f64;
                let decoding = next.saturating_sub(at.max(engine.reading_until)).as_secs_f64();
                busy += decoding * 4000.0 * batch / (batch + 24.0);
                ended.extend(engine.complete(next));
                if next == at { break }
                at = next;
            }
        };
        for (id, (gap, prompt, output)) in arrivals.iter().enumerate() {
            let then = now + Duration::from_millis(*gap);
            walk(&mut engine, then, now, &mut ended);
            now = then;
            engine.arrive(now, id as u64, work(*prompt, *output));
            asked += u64::from(*output);
            read += u64::from(*prompt);
        }
        while let Some((at, _)) = engine.next_completion() {
            walk(&mut engine, at, now, &mut ended);
            ended.extend(engine.complete(at));
            now = at;
        }
        let gauges = engine.gauges(now);
        prop_assert_eq!(ended.len(), arrivals.len());
        prop_assert!(ended.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        prop_assert_eq!((gauges.generation_tokens, gauges.prompt_tokens), (asked, read));
        prop_assert_eq!((gauges.running, gauges.queued), (0, 0));
        prop_assert!((busy - asked as f64).abs() < 0.01, "{} tokens by the formula, {} asked", busy, asked);
    }

    /// Whoever looks, and how often, changes nothing.
    #[test]
    fn looking_often_and_looking_once_agree(outputs in prop::collection::vec(1u32..500, 1..20), looks in 1u32..50) {
        let run = |looks: u32| {
            let mut engine = Engine::new(capacity(4));
            for (id, output) in outputs.iter().enumerate() {
                engine.arrive(Duration::ZERO, id as u64, work(10, *output));
            }
            (1..=looks).flat_map(|look| engine.complete(Duration::from_secs(1000) * look / looks)).collect::<Vec<_>>()
        };
        let (often, once) = (run(looks), run(1));
        prop_assert_eq!(often.len(), once.len());
        for (one, other) in often.iter().zip(&once) {
            prop_assert_eq!(one.1, other.1);
            prop_assert!(one.0.abs_diff(other.0) < Duration::from_micros(1));
        }
    }
}
