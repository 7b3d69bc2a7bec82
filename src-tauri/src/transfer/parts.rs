//! Takes a JSON file of any size apart into the values of its top level, without reading it whole and without
//! understanding what is in them: one that is damaged costs no other.

use std::io::{self, BufRead};

/// What a file has at its top.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// A member of the object that the file is.
    Member {
        /// Its name.
        key: String,
        /// Its value, as JSON.
        value: Vec<u8>,
    },
    /// An element of the array that the file is, or that its member `conversations` is.
    Element(Vec<u8>),
    /// A value that is longer than what is taken.
    TooLong {
        /// Its length.
        bytes: u64,
    },
}

/// Why a file cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// The system's reason.
    #[error("reading failed")]
    Io(#[from] io::Error),
    /// The file ends too early.
    #[error("it ends within a value, after {at} bytes")]
    Truncated {
        /// Bytes read.
        at: u64,
    },
    /// It is no JSON.
    #[error("it is no JSON at byte {at}")]
    Malformed {
        /// Place of what cannot be there.
        at: u64,
    },
}

/// Name of the member whose elements come one by one.
const LIST: &str = "conversations";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    /// In the array, before an element. `within`: in the member of an object.
    Array {
        is_first: bool,
        within: bool,
    },
    Object {
        is_first: bool,
    },
    End,
}

/// The parts of a file, in order. After an error there are no more.
pub struct Parts<R> {
    input: R,
    at: u64,
    place: Place,
    max_value_bytes: usize,
}

impl<R: BufRead> Parts<R> {
    /// Values longer than `max_value_bytes` are told and passed over.
    pub fn new(input: R, max_value_bytes: usize) -> Self {
        Self { input, at: 0, place: Place::Start, max_value_bytes }
    }

    fn step(&mut self) -> Result<Option<Part>, PartsError> {
        loop {
            match self.place {
                Place::End => return Ok(None),
                Place::Start => {
                    self.skip_mark()?;
                    self.place = match self.next_sign()? {
                        b'[' => Place::Array { is_first: true, within: false },
                        b'{' => Place::Object { is_first: true },
                        _ => return Err(self.malformed()),
                    };
                }
                Place::Array { is_first, within } => {
                    let sign = self.peek_sign()?;
                    if sign == b']' {
                        self.take()?;
                        self.place = if within { Place::Object { is_first: false } } else { Place::End };
                        continue;
                    }
                    self.after_comma(is_first, sign)?;
                    self.place = Place::Array { is_first: false, within };
                    return self.value().map(|value| Some(value.map_or_else(too_long, Part::Element)));
                }
                Place::Object { is_first } => {
                    let sign = self.peek_sign()?;
                    if sign == b'}' {
                        self.take()?;
                        self.place = Place::End;
                        continue;
                    }
                    self.after_comma(is_first, sign)?;
                    self.place = Place::Object { is_first: false };
                    let key = self.key()?;
                    if self.next_sign()? != b':' {
                        return Err(self.malformed());
                    }
                    if key == LIST && self.peek_sign()? == b'[' {
                        self.take()?;
                        self.place = Place::Array { is_first: true, within: true };
                        continue;
                    }
                    let member = |value| Part::Member { key, value };
                    return self.value().map(|value| Some(value.map_or_else(too_long, member)));
                }
            }
        }
    }

    /// Passes a comma, which every value but the first has before it.
    fn after_comma(&mut self, is_first: bool, sign: u8) -> Result<(), PartsError> {
        if is_first {
            return Ok(());
        }
        if sign != b',' {
            return Err(self.malformed());
        }
        self.take()?;
        Ok(())
    }

    fn key(&mut self) -> Result<String, PartsError> {
        if self.peek_sign()? != b'"' {
            return Err(self.malformed());
        }
        let key = self.value()?.map_err(|_| self.malformed())?;
        serde_json::from_slice(&key).map_err(|_| self.malformed())
    }

    /// The bytes of the value that comes next, or its length if it is too long.
    fn value(&mut self) -> Result<Result<Vec<u8>, u64>, PartsError> {
        let first = self.peek_sign()?;
        if matches!(first, b',' | b':' | b']' | b'}') {
            return Err(self.malformed());
        }
        let mut value = Vec::new();
        let mut scan = Scan::new(first);
        let began = self.at;
        loop {
            let at = self.at;
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                return Err(PartsError::Truncated { at });
            }
            let (taken, is_whole) = scan.feed(chunk);
            if value.len() <= self.max_value_bytes {
                value.extend_from_slice(&chunk[..taken]);
            }
            self.input.consume(taken);
            self.at += taken as u64;
            if is_whole {
                break;
            }
        }
        let bytes = self.at - began;
        Ok(if bytes > self.max_value_bytes as u64 { Err(bytes) } else { Ok(value) })
    }

    fn skip_mark(&mut self) -> Result<(), PartsError> {
        if self.input.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
            self.input.consume(3);
            self.at += 3;
        }
        Ok(())
    }

    fn next_sign(&mut self) -> Result<u8, PartsError> {
        self.peek_sign()?;
        self.take()
    }

    fn peek_sign(&mut self) -> Result<u8, PartsError> {
        loop {
            let chunk = self.input.fill_buf()?;
            let Some(&first) = chunk.first() else { return Err(PartsError::Truncated { at: self.at }) };
            let blank = chunk.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
            if blank == 0 {
                return Ok(first);
            }
            self.input.consume(blank);
            self.at += blank as u64;
        }
    }

    fn take(&mut self) -> Result<u8, PartsError> {
        let first = self.input.fill_buf()?.first().copied();
        let first = first.ok_or(PartsError::Truncated { at: self.at })?;
        self.input.consume(1);
        self.at += 1;
        Ok(first)
    }

    fn malformed(&self) -> PartsError {
        PartsError::Malformed { at: self.at }
    }
}

fn too_long(bytes: u64) -> Part {
    Part::TooLong { bytes }
}

impl<R: BufRead> Iterator for Parts<R> {
    type Item = Result<Part, PartsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.step();
        if part.is_err() {
            self.place = Place::End;
        }
        part.transpose()
    }
}

/// Finds the end of one value. What is within is only told apart into strings and brackets.
struct Scan {
    is_scalar: bool,
    depth: u64,
    is_string: bool,
    is_escaped: bool,
}

impl Scan {
    fn new(first: u8) -> Self {
        let is_scalar = !matches!(first, b'{' | b'[' | b'"');
        Self { is_scalar, depth: 0, is_string: false, is_escaped: false }
    }

    /// How many bytes of the chunk belong to the value, and whether it ends there.
    fn feed(&mut self, chunk: &[u8]) -> (usize, bool) {
        for (at, &byte) in chunk.iter().enumerate() {
            if self.is_scalar {
                if matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r') {
                    return (at, true);
                }
            } else if self.is_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => {
                        self.is_string = false;
                        if self.depth == 0 {
                            return (at + 1, true);
                        }
                    }
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.is_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return (at + 1, true);
                        }
                    }
                    _ => {}
                }
            }
        }
        (chunk.len(), false)
    }
}

/// Mends what programs write although it is no JSON: bytes that are not UTF-8, and halves of surrogate pairs.
pub fn mended(json: &[u8]) -> String {
    let text = String::from_utf8_lossy(json);
    let mut mended = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let high = surrogate(escape, 0xd800..=0xdbff);
        let low = |escape: &str| surrogate(escape, 0xdc00..=0xdfff);
        let length = match high {
            Some(()) if escape.get(6..).is_some_and(|next| low(next).is_some()) => 12,
            Some(()) => {
                mended.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            None if low(escape).is_some() => {
                mended.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            // An escaped backslash must not be read as the start of the next escape.
            None => escape.char_indices().nth(2).map_or(escape.len(), |(at, _)| at),
        };
        mended.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    mended.push_str(rest);
    mended
}

/// Whether an escape stands for a code unit of the range.
fn surrogate(escape: &str, range: std::ops::RangeInclusive<u16>) -> Option<()> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    range.contains(&unit).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// Read in chunks of every small size: no part may depend on where a chunk ends.
    fn parts(json: &str, max_value_bytes: usize) -> Vec<String> {
        let read = |chunk| {
            let reader = BufReader::with_capacity(chunk, json.as_bytes());
            Parts::new(reader, max_value_bytes)
                .map(|part| match part {
                    Ok(Part::Member { key, value }) => format!("{key}={}", String::from_utf8_lossy(&value)),
                    Ok(Part::Element(value)) => String::from_utf8_lossy(&value).into_owned(),
                    Ok(Part::TooLong { bytes }) => format!("{bytes} bytes"),
                    Err(error) => error.to_string(),
                })
                .collect::<Vec<_>>()
        };
        let whole = read(8192);
        for chunk in 4..12 {
            assert_eq!(read(chunk), whole, "chunks of {chunk}");
        }
        whole
    }

    #[test]
    fn an_array_comes_element_by_element_whatever_is_in_it() {
        let json = "\u{feff} [ {\"a\":\"]}\\\"\"}, [1,[2]] ,3,\"x\\\\\" , {\"b\": nonsense} ]trailing";
        assert_eq!(parts(json, 99), ["{\"a\":\"]}\\\"\"}", "[1,[2]]", "3", "\"x\\\\\"", "{\"b\": nonsense}"]);
        assert_eq!(parts("[]", 9), [""; 0]);
    }

    #[test]
    fn an_object_comes_member_by_member_and_its_conversations_one_by_one() {
        let json = r#"{"format":"f", "conversations" :[{"id":1}, {"id":2}],"last":{"x":[]}}"#;
        assert_eq!(parts(json, 99), ["format=\"f\"", "{\"id\":1}", "{\"id\":2}", "last={\"x\":[]}"]);
        assert_eq!(parts(r#"{"conversations":7}"#, 99), ["conversations=7"]);
    }

    #[test]
    fn what_is_too_long_is_passed_over_and_the_rest_comes() {
        assert_eq!(parts("[1,[\"0123456789\"],2]", 8), ["1", "14 bytes", "2"]);
    }

    #[test]
    fn what_came_before_the_damage_stays() {
        assert_eq!(parts("[1,2", 9), ["1", "it ends within a value, after 4 bytes"]);
        assert_eq!(parts("[{\"a\":1},{\"b\"", 9), ["{\"a\":1}", "it ends within a value, after 13 bytes"]);
        assert_eq!(parts("[1 2]", 9), ["1", "it is no JSON at byte 3"]);
        assert_eq!(parts("[,]", 9), ["it is no JSON at byte 1"]);
        assert_eq!(parts("%PDF", 9), ["it is no JSON at byte 1"]);
        assert_eq!(parts("", 9), ["it ends within a value, after 0 bytes"]);
        let deep = "[".repeat(100_000);
        assert_eq!(parts(&deep, 9), ["it ends within a value, after 100000 bytes"]);
    }

    #[test]
    fn halves_of_surrogate_pairs_are_mended_and_whole_ones_kept() {
        let read = |json: &str| serde_json::from_str::<String>(&mended(json.as_bytes())).unwrap();
        assert_eq!(read(r#""\ud83d\udd11 ok""#), "🔑 ok");
        assert_eq!(read(r#""a\ud83d""#), "a\u{fffd}");
        assert_eq!(read(r#""\udd11\ud83d\ud83d\udd11""#), "\u{fffd}\u{fffd}🔑");
        assert_eq!(read(r#""\\ud83d\n""#), "\\ud83d\n", "an escaped backslash is no escape");
        assert_eq!(mended(b"\"\xff\""), "\"\u{fffd}\"");
        assert_eq!(mended(br#""\u12"#), r#""\u12"#);
    }
}
