//! Slices as Python takes them.

use minijinja::{Error, ErrorKind, State, Value, value::ValueKind};

use super::metering::charge;

/// `value[start:stop:step]` of a text, by characters, or of a list.
pub(super) fn slice(
    state: &State,
    value: Value,
    start: Option<i64>,
    stop: Option<i64>,
    step: Option<i64>,
) -> Result<Value, Error> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(invalid("a slice cannot have a step of 0"));
    }
    if let Some(text) = value.as_str() {
        charge(state, text.len())?;
        if step == 1 {
            return Ok(Value::from(characters(text, start, stop)));
        }
        let characters: Vec<char> = text.chars().collect();
        return Ok(Value::from(taken(&characters, start, stop, step).collect::<String>()));
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            charge(state, items.len() * size_of::<Value>())?;
            Ok(taken(&items, start, stop, step).collect())
        }
        ValueKind::Undefined | ValueKind::None => Ok(Value::from(Vec::<Value>::new())),
        _ => Err(invalid("this value cannot be sliced")),
    }
}

/// The common case without a copy of the whole text.
fn characters(text: &str, start: Option<i64>, stop: Option<i64>) -> &str {
    let length = text.chars().count();
    let offset = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    let (from, to) = (clamp(start.unwrap_or(0), length), clamp(stop.unwrap_or(i64::MAX), length));
    if from < to { &text[offset(from)..offset(to)] } else { "" }
}

/// A place from the front, or from the end if negative, within `0..=length`.
fn clamp(place: i64, length: usize) -> usize {
    let size = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
    if place < 0 { length.saturating_sub(size) } else { size.min(length) }
}

fn taken<T: Clone>(items: &[T], start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = T> {
    let stride = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
    let (from, to) = if step > 0 {
        (clamp(start.unwrap_or(0), items.len()), clamp(stop.unwrap_or(i64::MAX), items.len()))
    } else {
        // Backwards the ends are the place after an item: `[2:0:-1]` takes items 2 and 1.
        let after =
            |place: i64| clamp(if place == -1 { i64::MAX } else { place.saturating_add(1) }, items.len());
        (stop.map_or(0, after), start.map_or(items.len(), after))
    };
    let range = items.get(from..to).unwrap_or_default();
    let forward = (step > 0).then(|| range.iter().step_by(stride).cloned());
    let backward = (step < 0).then(|| range.iter().rev().step_by(stride).cloned());
    forward.into_iter().flatten().chain(backward.into_iter().flatten()).collect::<Vec<_>>().into_iter()
}

fn invalid(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}
