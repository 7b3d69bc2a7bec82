//! Changes to valid files that keep most of their structure.

use crate::random::Random;

/// Numbers at the edges of what is stored in so many bits.
const EDGES: [u64; 22] = [
    0,
    1,
    2,
    3,
    7,
    8,
    31,
    32,
    33,
    127,
    255,
    256,
    65_535,
    65_536,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x1_0000_0000,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

const JSON_VALUES: [&str; 18] = [
    "null",
    "true",
    "{}",
    "[]",
    "[[]]",
    "\"\"",
    "\"../x.safetensors\"",
    "\"F16\"",
    "\"BF16\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "-1",
    "0",
    "1e308",
    "1e999",
    "0.5",
    "18446744073709551615",
    "18446744073709551616",
];

pub fn edge(random: &mut Random) -> u64 {
    match random.below(3) {
        0 => random.size(64),
        _ => EDGES[random.below(EDGES.len() as u64) as usize],
    }
}

fn place(random: &mut Random, bytes: &[u8]) -> usize {
    random.below(bytes.len() as u64 + 1) as usize
}

/// A range of at most 64 bytes.
fn span(random: &mut Random, bytes: &[u8]) -> std::ops::Range<usize> {
    let start = place(random, bytes);
    start..(start + random.below(65) as usize).min(bytes.len())
}

/// One change that knows nothing of the format.
pub fn bytes(random: &mut Random, bytes: &mut Vec<u8>) {
    match random.below(7) {
        0 if !bytes.is_empty() => {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        1 => {
            let width = 1 << random.below(4);
            let start = place(random, bytes);
            let end = (start + width).min(bytes.len());
            bytes[start..end].copy_from_slice(&edge(random).to_le_bytes()[..end - start]);
        }
        2 => drop(bytes.drain(span(random, bytes))),
        3 => {
            let copied = bytes[span(random, bytes)].to_vec();
            let at = place(random, bytes);
            bytes.splice(at..at, copied);
        }
        4 => bytes.truncate(place(random, bytes)),
        5 => {
            let at = place(random, bytes);
            let count = random.below(40) as usize;
            let byte = random.bits() as u8;
            bytes.splice(at..at, std::iter::repeat_n(byte, count));
        }
        _ => {
            let at = place(random, bytes);
            bytes.splice(at..at, random.bits().to_le_bytes());
        }
    }
}

/// One change to a JSON text, which mostly stays JSON.
pub fn json(random: &mut Random, text: &mut Vec<u8>) {
    let numbers = runs(text, |byte| byte.is_ascii_digit());
    let strings = quoted(text);
    let values = JSON_VALUES.len() as u64;
    let pick = |random: &mut Random, spans: &[(usize, usize)]| {
        spans.get(random.below(spans.len().max(1) as u64) as usize).copied()
    };
    match random.below(8) {
        0 | 1 => {
            let Some((start, end)) = pick(random, &numbers) else { return };
            text.splice(start..end, edge(random).to_string().into_bytes());
        }
        2 => {
            let Some((start, end)) = pick(random, &numbers) else { return };
            let value = JSON_VALUES[random.below(values) as usize];
            text.splice(start..end, value.bytes());
        }
        3 => {
            let Some((start, end)) = pick(random, &strings) else { return };
            let value = JSON_VALUES[random.below(values) as usize];
            text.splice(start..end, value.bytes());
        }
        4 => {
            // A key or value of elsewhere: names that occur twice, dtypes as names, and so on.
            let (Some((from, to)), Some((start, end))) = (pick(random, &strings), pick(random, &strings))
            else {
                return;
            };
            let other = text[from..to].to_vec();
            text.splice(start..end, other);
        }
        5 => {
            let Some((start, _)) = pick(random, &numbers) else { return };
            let depth = random.size(18) as usize;
            let opening = if random.below(2) == 0 { "[" } else { "{\"a\":" };
            text.splice(start..start, opening.repeat(depth).into_bytes());
        }
        6 => {
            let Some((start, end)) = pick(random, &numbers) else { return };
            let list = format!("{},", &String::from_utf8_lossy(&text[start..end]));
            let count = random.size(16) as usize;
            text.splice(start..start, list.repeat(count).into_bytes());
        }
        _ => bytes(random, text),
    }
}

fn runs(text: &[u8], belongs: impl Fn(u8) -> bool) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for at in (0..text.len()).filter(|at| belongs(text[*at])) {
        match found.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ => found.push((at, at + 1)),
        }
    }
    found
}

/// Texts with their quotes.
fn quoted(text: &[u8]) -> Vec<(usize, usize)> {
    let quotes: Vec<usize> =
        text.iter().enumerate().filter(|(_, byte)| **byte == b'"').map(|(at, _)| at).collect();
    quotes.chunks_exact(2).map(|pair| (pair[0], pair[1] + 1)).collect()
}
