//! Where the words of a query are in a text, whatever their case and diacritics.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

/// Characters of a snippet at most, without the ellipses.
pub const SNIPPET_CHARS: usize = 160;

/// Characters of a snippet before its first match, at most.
const LEAD_CHARS: usize = 32;

/// A line of text and where the query is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marked {
    /// The line.
    pub text: String,
    /// Byte ranges of `text` at character boundaries, in order, without overlap.
    pub marks: Vec<Range<usize>>,
}

/// The characters that count in a comparison: lower case, without Latin diacritics. At most one for each of `text`.
pub fn folded(text: &str) -> Vec<char> {
    text.chars().filter_map(fold).collect()
}

/// As the index's tokenizer does it; `None` for a diacritic alone.
///
/// What falls into several letters, as Hangul does, is compared whole: its parts are no characters of the index.
fn fold(c: char) -> Option<char> {
    let mut letters = std::iter::once(c).nfd().filter(|part| !('\u{300}'..='\u{36f}').contains(part));
    let first = letters.next()?;
    let letter = if letters.next().is_some() { c } else { first };
    letter.to_lowercase().next()
}

/// The whole text on one line. `words` as [`folded`] gives them, none empty.
pub fn mark_line(text: &str, words: &[Vec<char>]) -> Marked {
    let text = one_line(text);
    let marks = find(&text, words);
    Marked { text, marks }
}

/// The part of the text around its first match, on one line; its start if nothing matches.
pub fn mark_snippet(text: &str, words: &[Vec<char>]) -> Marked {
    let line = one_line(text);
    let marks = find(&line, words);
    let first = marks.first().map_or(0, |mark| mark.start);
    let from = window_start(&line, first);
    let to = line[from..].char_indices().nth(SNIPPET_CHARS).map_or(line.len(), |(at, _)| from + at);
    let before = if from > 0 { "…" } else { "" };
    let after = if to < line.len() { "…" } else { "" };
    let shift = |at: usize| at - from + before.len();
    Marked {
        text: format!("{before}{}{after}", &line[from..to]),
        marks: marks
            .into_iter()
            .filter(|mark| mark.start < to)
            .map(|mark| shift(mark.start)..shift(mark.end.min(to)))
            .collect(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Where a snippet begins: at most [`LEAD_CHARS`] before `first`, at the start of a word where there is one.
fn window_start(line: &str, first: usize) -> usize {
    let lead = line[..first].char_indices().rev().nth(LEAD_CHARS - 1).map_or(0, |(at, _)| at);
    if lead == 0 {
        return 0;
    }
    line[lead..first].find(' ').map_or(lead, |at| lead + at + 1)
}

/// Every place of every word, joined where they touch.
fn find(text: &str, words: &[Vec<char>]) -> Vec<Range<usize>> {
    let mut chars = Vec::with_capacity(text.len());
    let mut starts = Vec::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if let Some(c) = fold(c) {
            chars.push(c);
            starts.push(at);
        }
    }
    // The end of a match is the start of the next character that counts: marks above its last letter belong to it.
    let end_of = |last: usize| starts.get(last + 1).copied().unwrap_or(text.len());
    let mut found: Vec<Range<usize>> = Vec::new();
    for word in words {
        let mut at = 0;
        while at + word.len() <= chars.len() {
            if chars[at..].starts_with(word) {
                found.push(starts[at]..end_of(at + word.len() - 1));
                at += word.len();
            } else {
                at += 1;
            }
        }
    }
    joined(found)
}

fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str, query: &str) -> Vec<String> {
        let words: Vec<Vec<char>> = query.split(' ').map(folded).collect();
        let line = mark_snippet(text, &words);
        line.marks.into_iter().map(|mark| line.text[mark].to_owned()).collect()
    }

    #[test]
    fn marks_cover_what_was_written_not_what_was_typed() {
        assert_eq!(marked("A CAFÉ, two cafe\u{301}s", "cafe"), ["CAFÉ", "cafe\u{301}"]);
        assert_eq!(marked("ÅNGSTRÖM", "angstrom"), ["ÅNGSTRÖM"]);
        assert_eq!(marked("東京都の天気", "京都"), ["京都"]);
        assert_eq!(marked("abcabc", "abc bca"), ["abcabc"], "touching matches are one");
        assert_eq!(marked("한국어와 한구", "한국"), ["한국"], "a syllable is compared whole");
        assert_eq!(marked("🦀 crab", "crab"), ["crab"]);
        assert!(marked("nothing", "else").is_empty());
    }

    #[test]
    fn a_snippet_is_one_short_line_around_its_first_match() {
        let text = format!("{}\n\nthe needle\n{}", "before ".repeat(100), "after ".repeat(100));
        let snippet = mark_snippet(&text, &[folded("needle")]);
        assert!(snippet.text.starts_with("…before ") && snippet.text.ends_with('…'), "{snippet:?}");
        assert_eq!(snippet.text.chars().count(), SNIPPET_CHARS + 2);
        assert_eq!(&snippet.text[snippet.marks[0].clone()], "needle");
        assert!(snippet.marks[0].start <= LEAD_CHARS + "…".len());

        let wide = mark_snippet(&"字".repeat(400), &[folded("無")]);
        assert_eq!((wide.text.chars().count(), wide.marks.len()), (SNIPPET_CHARS + 1, 0));
        assert_eq!(mark_snippet("", &[folded("x")]), Marked::default());
    }

    #[test]
    fn a_match_longer_than_the_snippet_is_marked_to_its_end() {
        let long = "x".repeat(SNIPPET_CHARS * 2);
        let snippet = mark_snippet(&long, &[folded("xx")]);
        assert_eq!(snippet.marks.len(), 1);
        assert_eq!(snippet.marks[0], 0..SNIPPET_CHARS, "the ellipsis is no match");
    }
}
