//! [`Rate`]: how fast a counter grows, over a sliding window (pure: time is given).

use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// The growth of a counter per second, over the last `window`.
#[derive(Debug)]
pub struct Rate {
    window: Duration,
    seen: VecDeque<(Instant, u64)>,
}

impl Rate {
    /// A rate over the last `window`.
    pub fn over(window: Duration) -> Rate {
        Rate { window, seen: VecDeque::new() }
    }

    /// The counter stands at `value` now. One older sighting than the window is kept, so that the window is full.
    pub fn saw(&mut self, now: Instant, value: u64) {
        self.seen.push_back((now, value));
        while self.seen.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= self.window) {
            self.seen.pop_front();
        }
    }

    /// Growth per second; `None` until there are two sightings apart.
    pub fn per_second(&self) -> Option<f64> {
        let ((from, first), (to, last)) = (self.seen.front()?, self.seen.back()?);
        let seconds = to.duration_since(*from).as_secs_f64();
        (seconds > 0.0).then(|| last.saturating_sub(*first) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_rate_is_that_of_the_window_and_not_of_the_whole_run() {
        let start = Instant::now();
        let mut rate = Rate::over(Duration::from_secs(10));
        assert_eq!(rate.per_second(), None);
        for second in 0..=100_u64 {
            let value = if second <= 50 { second * 1_000 } else { 50_000 + (second - 50) * 5 };
            rate.saw(start + Duration::from_secs(second), value);
        }
        assert_eq!(rate.per_second(), Some(5.0));
    }
}
