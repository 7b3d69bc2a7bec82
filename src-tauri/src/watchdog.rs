//! The page's watchdog: a live window never covers a dead page.
//!
//! A page that dies or falls silent is loaded anew, once; if that does not last, a notice takes its place. Nothing is
//! lost by it: messages and drafts are stored, answers go on in the engine, and the new page follows them.

use std::time::{Duration, Instant};

use tauri::{AppHandle, Manager, Url, WebviewWindow};
use tokio::time::MissedTickBehavior;

use crate::{platform, state::AppState, window};

/// The page says that it is alive every 3 s. A busy machine can make it late, so much more is allowed.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// A page that fails again within this time after it was loaded anew is not loaded again.
const RELAPSE: Duration = Duration::from_secs(120);

/// How often the page's silence is looked at.
const TICK: Duration = Duration::from_secs(1);

/// A tick so late means that the system slept or this process stood still; the page stood still with it.
const STANDSTILL: Duration = Duration::from_secs(5);

/// What is done about a page that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescue {
    /// It is loaded anew.
    Reload,
    /// A notice takes its place.
    Notice,
}

/// What is known of the page at a tick.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Its UI has started and has not been left since.
    pub is_started: bool,
    /// A person can see it.
    pub is_visible: bool,
    /// When it last said that it is alive.
    pub alive_at: Instant,
}

/// Decides what a silent or dead page calls for.
#[derive(Debug)]
pub struct Watchdog {
    last_tick: Instant,
    /// Silence before this is nobody's fault.
    silent_from: Instant,
    last_rescue: Option<Instant>,
}

impl Watchdog {
    /// A watchdog that has seen nothing yet.
    pub fn new(now: Instant) -> Self {
        Self { last_tick: now, silent_from: now, last_rescue: None }
    }

    /// What a page that may be silent calls for.
    pub fn tick(&mut self, now: Instant, seen: Seen) -> Option<Rescue> {
        let stood_still = now.duration_since(self.last_tick) > STANDSTILL;
        self.last_tick = now;
        if stood_still || !seen.is_started || !seen.is_visible {
            self.silent_from = now;
            return None;
        }
        let heard_at = seen.alive_at.max(self.silent_from);
        (now.saturating_duration_since(heard_at) > SILENCE_LIMIT).then(|| self.rescue(now))
    }

    /// What a page that died calls for.
    pub fn rescue(&mut self, now: Instant) -> Rescue {
        let is_relapse = self.last_rescue.is_some_and(|at| now.duration_since(at) < RELAPSE);
        self.last_rescue = Some(now);
        self.silent_from = now;
        if is_relapse { Rescue::Notice } else { Rescue::Reload }
    }
}

/// Watches the page of `window` for as long as the app runs.
pub fn start(app: &AppHandle, window: &WebviewWindow) {
    let (deaths, mut died) = tokio::sync::mpsc::unbounded_channel();
    app.state::<AppState>().window.tell_page_deaths(deaths.clone());
    let watched = platform::watch_page_process(window, move || {
        // The receiver lives as long as the app.
        let _ = deaths.send(());
    });
    if let Err(error) = watched {
        tracing::warn!(%error, "the page's process is not watched");
    }
    let (app, window) = (app.clone(), window.clone());
    tauri::async_runtime::spawn(async move {
        let mut watchdog = Watchdog::new(Instant::now());
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let rescue = tokio::select! {
                _ = ticks.tick() => watchdog.tick(Instant::now(), seen(&app, &window)),
                Some(()) = died.recv() => Some(watchdog.rescue(Instant::now())),
            };
            if let Some(rescue) = rescue {
                carry_out(&app, &window, rescue);
            }
        }
    });
}

fn seen(app: &AppHandle, window: &WebviewWindow) -> Seen {
    let state = app.state::<AppState>();
    let is_shown = window.is_visible().unwrap_or(false) && !window.is_minimized().unwrap_or(true);
    Seen { is_started: state.window.is_started(), is_visible: is_shown, alive_at: state.window.alive_at() }
}

fn carry_out(app: &AppHandle, window: &WebviewWindow, rescue: Rescue) {
    tracing::error!(?rescue, "the page died or fell silent");
    app.state::<AppState>().window.note_page_load();
    if let Err(error) = platform::end_page_process(window) {
        tracing::warn!(%error, "a page that hangs could not be ended");
    }
    let page = match rescue {
        Rescue::Reload => window::OWN_PAGE,
        Rescue::Notice => window::STOPPED_NOTICE,
    };
    let shown = Url::parse(page).map(|url| window.navigate(url));
    if !matches!(shown, Ok(Ok(()))) {
        tracing::error!(page, "no page can be shown in place of the one that failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Clock {
        now: Instant,
        dog: Watchdog,
    }

    impl Clock {
        fn new() -> Self {
            let now = Instant::now();
            Self { now, dog: Watchdog::new(now) }
        }

        /// Ticks once a second; `alive_s_ago`: how long before each tick the page was heard.
        fn run(&mut self, seconds: u64, is_visible: bool, heard: Option<Instant>) -> Vec<Rescue> {
            let mut rescues = Vec::new();
            for _ in 0..seconds {
                self.now += TICK;
                let alive_at = heard.unwrap_or(self.now);
                rescues.extend(self.dog.tick(self.now, Seen { is_started: true, is_visible, alive_at }));
            }
            rescues
        }
    }

    #[test]
    fn a_silent_page_is_loaded_anew_once_and_then_gives_way_to_a_notice() {
        let mut clock = Clock::new();
        assert_eq!(clock.run(100, true, None), [], "a page that is heard is left alone");
        let last_heard = clock.now;
        assert_eq!(clock.run(30, true, Some(last_heard)), []);
        assert_eq!(clock.run(1, true, Some(last_heard)), [Rescue::Reload]);
        assert_eq!(clock.run(60, true, Some(last_heard)), [Rescue::Notice], "no loop of reloads");
    }

    #[test]
    fn a_page_that_recovered_is_loaded_anew_again_much_later() {
        let mut clock = Clock::new();
        assert_eq!(clock.dog.rescue(clock.now), Rescue::Reload);
        assert_eq!(clock.run(121, true, None), []);
        assert_eq!(clock.dog.rescue(clock.now), Rescue::Reload);
        assert_eq!(clock.dog.rescue(clock.now + TICK), Rescue::Notice);
    }

    #[test]
    fn a_hidden_page_and_a_sleeping_computer_are_nobodys_fault() {
        let mut clock = Clock::new();
        let last_heard = clock.now;
        assert_eq!(clock.run(200, false, Some(last_heard)), [], "hidden pages are slowed down by the system");
        assert_eq!(clock.run(30, true, Some(last_heard)), [], "once shown, it has the whole time");
        clock.now += Duration::from_secs(3600);
        assert_eq!(clock.run(1, true, Some(last_heard)), [], "the page slept too");
        assert_eq!(clock.run(29, true, Some(last_heard)), []);
    }
}
