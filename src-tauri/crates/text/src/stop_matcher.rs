/// What may be shown after a piece of text came in, and whether a stop string ended the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopOutcome {
    /// Text that can no longer belong to a stop string.
    pub emit: String,
    /// Index of the stop string that matched, in the order given to [`StopMatcher::new`].
    pub stopped: Option<usize>,
}

/// Finds stop strings in streamed text, wherever the pieces are cut.
///
/// Holds back the longest end of the text that could still begin a stop string. The stop string itself is never
/// emitted, the text before it always is. The stop string that is complete first wins; of two that are complete at
/// the same character, the one that began first. So the outcome does not depend on how the text was cut.
#[derive(Debug, Clone)]
pub struct StopMatcher {
    stops: Vec<String>,
    held: String,
    stopped: Option<usize>,
}

impl StopMatcher {
    /// Watches for `stops`. An empty string never matches.
    pub fn new(stops: Vec<String>) -> Self {
        Self { stops, held: String::new(), stopped: None }
    }

    /// Takes the next piece of text. After a match every further piece is swallowed.
    pub fn push(&mut self, text: &str) -> StopOutcome {
        if self.stopped.is_some() {
            return StopOutcome { emit: String::new(), stopped: self.stopped };
        }
        self.held.push_str(text);
        if let Some((start, which)) = self.first_match() {
            self.held.truncate(start);
            self.stopped = Some(which);
            return StopOutcome { emit: std::mem::take(&mut self.held), stopped: self.stopped };
        }
        let keep_from = self.held_from();
        let held = self.held.split_off(keep_from);
        StopOutcome { emit: std::mem::replace(&mut self.held, held), stopped: None }
    }

    /// Ends the text and returns what was held back: it was no stop string after all.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Bytes currently held back.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn first_match(&self) -> Option<(usize, usize)> {
        let found =
            self.stops.iter().enumerate().filter(|(_, stop)| !stop.is_empty()).filter_map(|(which, stop)| {
                let start = self.held.find(stop.as_str())?;
                Some((start + stop.len(), start, which))
            });
        found.min().map(|(_, start, which)| (start, which))
    }

    fn held_from(&self) -> usize {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let begins_a_stop = |at: usize| {
            let tail = &self.held[at..];
            self.stops.iter().any(|stop| stop.len() > tail.len() && stop.starts_with(tail))
        };
        let candidates = self.held.char_indices().map(|(at, _)| at).rev();
        let earliest =
            candidates.take_while(|at| self.held.len() - at < longest).filter(|at| begins_a_stop(*at)).last();
        earliest.unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `text` in pieces cut at the given byte offsets.
    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
        let mut matcher = StopMatcher::new(stops.iter().map(ToString::to_string).collect());
        let mut shown = String::new();
        for piece in pieces {
            let outcome = matcher.push(piece);
            shown.push_str(&outcome.emit);
            if outcome.stopped.is_some() {
                assert_eq!(matcher.finish(), "", "nothing may follow a stop string");
                return (shown, outcome.stopped);
            }
        }
        shown.push_str(&matcher.finish());
        (shown, None)
    }

    fn two_and_three_pieces(text: &str) -> Vec<Vec<&str>> {
        let cuts: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        let mut all = Vec::new();
        for (i, a) in cuts.iter().enumerate() {
            for b in &cuts[i..] {
                all.push(vec![&text[..*a], &text[*a..*b], &text[*b..]]);
            }
        }
        all
    }

    #[test]
    fn any_cut_of_the_text_gives_the_same_outcome() {
        let cases: [(&[&str], &str, &str, Option<usize>); 8] = [
            (&["</s>"], "one</s>two", "one", Some(0)),
            (&["</s>"], "one</ s>two", "one</ s>two", None),
            (&["abcd", "bc"], "xabcd", "xa", Some(1)),
            (&["bcd", "abcd"], "xabcd", "x", Some(1)),
            (&["日本語"], "東京は日本日本語です", "東京は日本", Some(0)),
            (&["aab"], "aaab", "a", Some(0)),
            (&["", "\n\n"], "a\n b\n\nc", "a\n b", Some(1)),
            (&["👩‍👩‍👧"], "👩‍👩 👩‍👩‍👧!", "👩‍👩 ", Some(0)),
        ];
        for (stops, text, shown, stopped) in cases {
            for pieces in two_and_three_pieces(text) {
                assert_eq!(run(stops, &pieces), (shown.to_string(), stopped), "{stops:?} {pieces:?}");
            }
            let chars: Vec<String> = text.chars().map(String::from).collect();
            let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
            assert_eq!(run(stops, &chars), (shown.to_string(), stopped), "one character at a time");
        }
    }

    #[test]
    fn text_that_cannot_begin_a_stop_string_is_shown_at_once() {
        let mut matcher = StopMatcher::new(vec!["<end>".into()]);
        assert_eq!(matcher.push("hello ").emit, "hello ");
        assert_eq!(matcher.push("a <e").emit, "a ");
        assert_eq!(matcher.held_bytes(), 2);
        assert_eq!(matcher.push("gg").emit, "<egg");
    }

    #[test]
    fn without_stop_strings_nothing_is_held() {
        let mut matcher = StopMatcher::new(Vec::new());
        assert_eq!(matcher.push("anything"), StopOutcome { emit: "anything".into(), stopped: None });
        assert_eq!(matcher.held_bytes(), 0);
    }
}
