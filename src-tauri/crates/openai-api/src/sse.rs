//! Server-sent events, as bytes arrive.

use std::collections::VecDeque;

/// Longest line, in bytes; a piece of an answer is some hundred bytes long.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Largest event, in bytes.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name; empty for the usual kind.
    pub name: String,
    /// Its data, lines joined.
    pub data: String,
}

/// A line or an event longer than what is reasonable to hold in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line or event of more than {limit_bytes} bytes")]
pub struct SseTooLong {
    /// The limit.
    pub limit_bytes: usize,
}

/// Turns bytes into events, wherever they are split.
///
/// Lines end in LF, CR LF or CR; comments, `id` and `retry` are dropped. A field `error`, which old llama.cpp servers
/// send instead of `data`, becomes an event of that name.
///
/// Source: WHATWG HTML, "Server-sent events", 9.2.6.
#[derive(Debug, Default)]
pub struct SseDecoder {
    line: Vec<u8>,
    /// A CR ended the latest line: an LF right after it belongs to the same end.
    is_after_cr: bool,
    has_lines: bool,
    name: String,
    data: Option<String>,
    ready: VecDeque<SseEvent>,
}

impl SseDecoder {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`SseTooLong`]; nothing can be decoded after it.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), SseTooLong> {
        if self.is_after_cr && !bytes.is_empty() {
            self.is_after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend_line(&bytes[..end])?;
            self.end_line()?;
            let is_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_cr {
                self.is_after_cr = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
        }
        self.extend_line(bytes)
    }

    /// The next whole event.
    pub fn pop(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// Ends the stream. An event that lacks its blank line counts, for servers that forget it.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(&mut self) -> Result<(), SseTooLong> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.end_event();
        Ok(())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), SseTooLong> {
        if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            return Err(SseTooLong { limit_bytes: LINE_BYTES_MAX });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), SseTooLong> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = if self.has_lines { &line } else { line.strip_prefix('\u{feff}').unwrap_or(&line) };
        self.has_lines = true;
        if line.is_empty() {
            self.end_event();
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.add_data(value)?,
            "event" => value.clone_into(&mut self.name),
            "error" => {
                "error".clone_into(&mut self.name);
                self.add_data(value)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), SseTooLong> {
        match &mut self.data {
            None => self.data = Some(value.to_owned()),
            Some(data) if data.len() + value.len() < EVENT_BYTES_MAX => {
                data.push('\n');
                data.push_str(value);
            }
            Some(_) => return Err(SseTooLong { limit_bytes: EVENT_BYTES_MAX }),
        }
        Ok(())
    }

    fn end_event(&mut self) {
        let name = std::mem::take(&mut self.name);
        if let Some(data) = self.data.take() {
            self.ready.push_back(SseEvent { name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::default();
        for piece in pieces {
            decoder.push(piece).expect("short lines");
        }
        decoder.finish().expect("short lines");
        std::iter::from_fn(|| decoder.pop()).map(|event| (event.name, event.data)).collect()
    }

    const STREAM: &str = "\u{feff}: hello\r\ndata: eins\r\ndata:zwei\r\n\r\nretry: 5\n\nevent: error\ndata: 漢字 👩‍👧\n\n\
                          data\r\rid: 3\rdata:  two spaces\r\rerror: {}\n\ndata: [DONE]";

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_split() {
        let whole = decode([STREAM.as_bytes()]);
        let expected = [
            ("", "eins\nzwei"),
            ("error", "漢字 👩‍👧"),
            ("", ""),
            ("", " two spaces"),
            ("error", "{}"),
            ("", "[DONE]"),
        ];
        let expected: Vec<_> = expected.map(|(name, data)| (name.to_owned(), data.to_owned())).into();
        assert_eq!(whole, expected);
        for size in 1..STREAM.len() {
            assert_eq!(decode(STREAM.as_bytes().chunks(size)), expected, "in pieces of {size} bytes");
        }
    }

    #[test]
    fn an_endless_line_or_event_is_refused_before_it_fills_memory() {
        let mut decoder = SseDecoder::default();
        let piece = [b'x'; 4096];
        let pushed = (0..1000).take_while(|_| decoder.push(&piece).is_ok()).count();
        assert!(pushed <= LINE_BYTES_MAX / piece.len(), "{pushed} pieces were kept");
        let mut decoder = SseDecoder::default();
        let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
        let pushed = (0..10_000).take_while(|_| decoder.push(&line).is_ok()).count();
        assert!(pushed <= EVENT_BYTES_MAX / piece.len() + 1, "{pushed} lines were kept");
    }
}
