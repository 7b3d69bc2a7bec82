//! Damage to real files.

use serde_json::{Number, Value};

/// SplitMix64: small, fast and the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = limit.max(1) as u64;
        usize::try_from(self.next() % limit).unwrap()
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Flips, drops, repeats and inserts a few bytes.
pub fn bytes(random: &mut Random, mut input: Vec<u8>) -> Vec<u8> {
    const ODD: [&[u8]; 10] =
        [b"{%", b"%}", b"{{", b"}}", b"\"", b"[", b"\\u", b"-1", b"\xF0\x9F", b"99999999999999999999"];
    for _ in 0..=random.below(6) {
        let at = random.below(input.len());
        let end = (at + random.below(40)).min(input.len());
        match random.below(5) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 => drop(input.drain(at..end)),
            2 => {
                let piece = input[at..end].to_vec();
                let to = random.below(input.len());
                input.splice(to..to, piece);
            }
            3 => drop(input.splice(at..at, random.pick(&ODD).iter().copied())),
            _ if random.below(8) == 0 => input.truncate(at),
            _ => {}
        }
    }
    input
}

/// A file of JSON with a few of its values, or of its bytes, changed.
pub fn json(random: &mut Random, from: &[Value]) -> Vec<u8> {
    let mut root = random.pick(from).clone();
    let donor = random.pick(from).clone();
    if random.below(4) == 0 {
        return bytes(random, root.to_string().into_bytes());
    }
    for _ in 0..=random.below(4) {
        let replacement = value(random, &donor);
        let target = descend(random, &mut root);
        match (random.below(4), target) {
            (0, Value::Object(entries)) => {
                let key = entries.keys().nth(random.below(entries.len())).cloned();
                key.and_then(|key| entries.remove(&key));
            }
            (1, Value::Array(items)) if !items.is_empty() => {
                let item = items[random.below(items.len())].clone();
                items.push(if random.below(2) == 0 { item } else { replacement });
            }
            (2, Value::Array(items)) if !items.is_empty() => drop(items.remove(random.below(items.len()))),
            (_, target) => *target = replacement,
        }
    }
    root.to_string().into_bytes()
}

/// Somewhere within a value, more often near its root than its thousands of leaves.
fn descend<'a>(random: &mut Random, value: &'a mut Value) -> &'a mut Value {
    let has_children = match &*value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => false,
    };
    if !has_children || random.below(5) == 0 {
        return value;
    }
    let child = match value {
        Value::Array(items) => {
            let at = random.below(items.len());
            &mut items[at]
        }
        Value::Object(entries) => {
            let at = random.below(entries.len());
            entries.values_mut().nth(at).unwrap()
        }
        _ => unreachable!("checked above"),
    };
    descend(random, child)
}

fn value(random: &mut Random, donor: &Value) -> Value {
    const NUMBERS: [i64; 9] = [0, 1, -1, 2, 255, 65_536, 4_294_967_295, 4_294_967_296, i64::MAX];
    const STRINGS: [&str; 18] = [
        "",
        " ",
        "a",
        "<s>",
        "<|end|>",
        "▁",
        "\u{0}",
        "(a+)+$",
        "(?<!",
        "\\p{L}+|",
        ".*",
        "\\G",
        "ByteLevel",
        "Metaspace",
        "TemplateProcessing",
        "WordPiece",
        "first",
        "Removed",
    ];
    match random.below(7) {
        0 => Value::Null,
        1 => Value::Bool(random.below(2) == 0),
        2 => (*random.pick(&NUMBERS)).into(),
        3 => Number::from_f64([0.5, -1e300, 1e-300][random.below(3)]).into(),
        4 => (*random.pick(&STRINGS)).into(),
        5 => Value::String(random.pick(&STRINGS).repeat(1 << random.below(12))),
        _ => {
            let mut donor = donor.clone();
            descend(random, &mut donor).take()
        }
    }
}

/// A template with tags dropped, repeated, exchanged, or taken from other templates.
pub fn tags(random: &mut Random, template: &str, others: &[String]) -> String {
    let mut pieces = split(template);
    let other = random.pick(others).clone();
    let donors = split(&other);
    for _ in 0..=random.below(5) {
        let at = random.below(pieces.len());
        match random.below(5) {
            0 if pieces.len() > 1 => drop(pieces.remove(at)),
            1 => pieces.insert(at, pieces[random.below(pieces.len())]),
            2 => pieces.insert(at, donors[random.below(donors.len())]),
            3 => {
                let to = random.below(pieces.len());
                pieces.swap(at, to);
            }
            _ => pieces.insert(at, super::grammar::PIECES[random.below(super::grammar::PIECES.len())]),
        }
    }
    pieces.concat()
}

/// Cuts a template before and after its tags.
fn split(template: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find(['{']) {
        let end = rest[open..].find('}').map_or(rest.len(), |at| open + at + 1);
        let end = if rest[end..].starts_with('}') { end + 1 } else { end };
        pieces.extend([&rest[..open], &rest[open..end]]);
        rest = &rest[end..];
    }
    pieces.push(rest);
    pieces
}
