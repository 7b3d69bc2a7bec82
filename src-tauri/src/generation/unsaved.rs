//! How long saving an answer has been failing.

use std::time::{Duration, Instant};

/// How long text may stay unsaved before its answer ends: writing on would promise what the disk does not hold.
const LIMIT: Duration = Duration::from_secs(3);

/// How long saving has been failing.
#[derive(Default)]
pub struct Unsaved {
    since: Option<Instant>,
    latest: Option<Instant>,
}

impl Unsaved {
    /// Notes a failure; says whether they have lasted too long. A pause between failures means one was overcome.
    pub fn lasts(&mut self, now: Instant) -> bool {
        let is_new = self.latest.is_none_or(|latest| now - latest > 3 * history::FLUSH_INTERVAL);
        let since = if is_new { now } else { self.since.unwrap_or(now) };
        (self.since, self.latest) = (Some(since), Some(now));
        now - since >= LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_to_save_end_an_answer_only_once_they_last() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut unsaved = Unsaved::default();
        assert!(!unsaved.lasts(at(0)));
        assert!(!unsaved.lasts(at(600)));
        assert!(!unsaved.lasts(at(5_000)), "a long pause: the earlier failure was overcome");
        for ms in [5_600, 6_200, 6_800, 7_400] {
            assert!(!unsaved.lasts(at(ms)));
        }
        assert!(unsaved.lasts(at(8_100)));
    }
}
