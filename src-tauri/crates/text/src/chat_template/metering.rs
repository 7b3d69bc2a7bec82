//! Templates under a meter. They come from strangers: a few lines can double a text forty times over, or hold a list
//! within itself, and fuel counts neither.
//!
//! A compiled template is rewritten so that everything that makes text or containers, and every turn of a loop, goes
//! through a function of this module. That function keeps the account and refuses what is too much.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use minijinja::{
    Environment, Error, ErrorKind, State, Value,
    machinery::{CompiledTemplate, Instruction, Instructions},
    value::{Object, ValueKind},
};

use super::{python_slice, python_values};

/// Bytes of text that a rendering may make in all, kept or not.
pub(super) const MAX_MADE_BYTES: usize = 256 << 20;

/// Longest text and, in its written form, largest container.
pub(super) const MAX_TEXT_BYTES: usize = 16 << 20;

/// Time for one rendering; the longest conversations take some milliseconds.
pub(super) const MAX_TIME: Duration = Duration::from_secs(10);

/// Items of a container that a template builds, those of inner containers included as often as they occur.
const MAX_ITEMS: usize = 200_000;

/// Containers within containers.
const MAX_DEPTH: usize = 50;

// No template can spell these names.
const ACCOUNT: &str = "braid account";
const TEXT: &str = "braid text";
const CONCAT: &str = "braid concat";
const ADD: &str = "braid add";
const MULTIPLY: &str = "braid multiply";
const SLICE: &str = "braid slice";
const CHECK: &str = "braid check";
const TICK: &str = "braid tick";

/// Filters whose result nests what they are given one level deeper.
const NESTING_FILTERS: [&str; 6] = ["batch", "slice", "groupby", "items", "dictsort", "map"];

/// Why the meter stopped a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exceeded {
    Memory,
    Time,
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Memory => "a value is too large",
            Self::Time => "out of time",
        })
    }
}

impl std::error::Error for Exceeded {}

impl From<Exceeded> for Error {
    fn from(exceeded: Exceeded) -> Self {
        Self::new(ErrorKind::InvalidOperation, exceeded.to_string()).with_source(exceeded)
    }
}

/// What one rendering has used so far.
#[derive(Debug)]
pub(super) struct Account {
    made_bytes: AtomicUsize,
    ends_at: Instant,
}

impl Object for Account {}

impl Account {
    /// The variables that every rendering needs.
    pub(super) fn open() -> Value {
        let account = Self { made_bytes: AtomicUsize::new(0), ends_at: Instant::now() + MAX_TIME };
        Value::from_iter([(ACCOUNT, Value::from_object(account))])
    }

    fn add(&self, bytes: usize) -> Result<(), Exceeded> {
        let before = self.made_bytes.fetch_add(bytes, Ordering::Relaxed);
        if bytes > MAX_TEXT_BYTES || before.saturating_add(bytes) > MAX_MADE_BYTES {
            return Err(Exceeded::Memory);
        }
        self.tick()
    }

    fn tick(&self) -> Result<(), Exceeded> {
        if Instant::now() < self.ends_at { Ok(()) } else { Err(Exceeded::Time) }
    }
}

/// Enters `bytes` of new text into the account of a rendering, best before the text is made.
pub(super) fn charge(state: &State, bytes: usize) -> Result<(), Error> {
    match state.lookup(ACCOUNT).as_ref().and_then(|account| account.downcast_object_ref::<Account>()) {
        Some(account) => Ok(account.add(bytes)?),
        None => Err(Exceeded::Memory.into()),
    }
}

/// Adds the functions that [`metered`] calls.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_function(TEXT, |state: &State, value: Value| text(state, value));
    environment.add_function(CONCAT, |state: &State, left: Value, right: Value| {
        let (left, right) = (text(state, left)?, text(state, right)?);
        join(state, left.as_str().unwrap_or_default(), right.as_str().unwrap_or_default())
    });
    environment.add_function(ADD, add);
    environment.add_function(MULTIPLY, multiply);
    environment.add_function(SLICE, python_slice::slice);
    environment.add_function(CHECK, |state: &State, value: Value| check(state, value));
    environment.add_function(TICK, |state: &State| charge(state, 0).map(|()| Value::UNDEFINED));
}

/// A compiled template with the meter built in.
pub(super) struct Metered<'source> {
    pub(super) instructions: Instructions<'source>,
    pub(super) blocks: BTreeMap<&'source str, Instructions<'source>>,
}

impl<'source> Metered<'source> {
    pub(super) fn new(compiled: &CompiledTemplate<'source>) -> Self {
        let blocks = compiled.blocks.iter().map(|(name, block)| (*name, metered(block))).collect();
        Self { instructions: metered(&compiled.instructions), blocks }
    }
}

fn metered<'source>(plain: &Instructions<'source>) -> Instructions<'source> {
    let expanded: Vec<Vec<Instruction<'source>>> =
        (0..).map_while(|index| plain.get(index)).map(|instruction| expand(instruction.clone())).collect();
    let starts: Vec<u32> = expanded
        .iter()
        .scan(0_u32, |next, group| {
            let start = *next;
            *next += u32::try_from(group.len()).unwrap_or(u32::MAX);
            Some(start)
        })
        .collect();
    let end = starts
        .last()
        .zip(expanded.last())
        .map_or(0, |(start, group)| start + u32::try_from(group.len()).unwrap_or(u32::MAX));
    let moved = |target: u32| starts.get(target as usize).copied().unwrap_or(end);
    let mut instructions = Instructions::new(plain.name(), plain.source());
    for (index, group) in (0..).zip(expanded) {
        let line = plain.get_line(index).and_then(|line| u16::try_from(line).ok()).unwrap_or(1);
        for instruction in group {
            instructions.add_with_line(with_target(instruction, &moved), line);
        }
    }
    instructions
}

fn expand(instruction: Instruction<'_>) -> Vec<Instruction<'_>> {
    use Instruction as I;
    let call = |name, arguments| I::CallFunction(name, Some(arguments));
    match instruction {
        I::StringConcat => vec![call(CONCAT, 2)],
        I::Add => vec![call(ADD, 2)],
        I::Mul => vec![call(MULTIPLY, 2)],
        I::Slice => vec![call(SLICE, 4)],
        I::EmitRaw(text) => vec![I::LoadConst(Value::from(text)), call(TEXT, 1), I::Emit],
        I::Emit => vec![call(TEXT, 1), I::Emit],
        I::SetAttr(name) => vec![I::Swap, call(CHECK, 1), I::Swap, I::SetAttr(name)],
        I::Iterate(target) => vec![I::Iterate(target), call(TICK, 0), I::DiscardTop],
        I::ApplyFilter(name, arguments, local) if NESTING_FILTERS.contains(&name) => {
            vec![I::ApplyFilter(name, arguments, local), call(CHECK, 1)]
        }
        built @ (I::BuildList(_) | I::BuildMap(_) | I::CallFunction("dict", _)) => {
            vec![built, call(CHECK, 1)]
        }
        busy @ (I::CallFunction(..) | I::CallMethod(..) | I::ApplyFilter(..)) => {
            vec![busy, call(TICK, 0), I::DiscardTop]
        }
        other => vec![other],
    }
}

fn with_target<'source>(
    instruction: Instruction<'source>,
    moved: &impl Fn(u32) -> u32,
) -> Instruction<'source> {
    use Instruction as I;
    match instruction {
        I::Iterate(target) => I::Iterate(moved(target)),
        I::Jump(target) => I::Jump(moved(target)),
        I::JumpIfFalse(target) => I::JumpIfFalse(moved(target)),
        I::JumpIfFalseOrPop(target) => I::JumpIfFalseOrPop(moved(target)),
        I::JumpIfTrueOrPop(target) => I::JumpIfTrueOrPop(moved(target)),
        I::BuildMacro(name, target, flags) => I::BuildMacro(name, moved(target), flags),
        other => other,
    }
}

fn text(state: &State, value: Value) -> Result<Value, Error> {
    if value.as_str().is_none() {
        return Ok(Value::from(python_values::display(state, &value)?));
    }
    charge(state, value.as_str().map_or(0, str::len))?;
    Ok(value)
}

fn join(state: &State, left: &str, right: &str) -> Result<Value, Error> {
    charge(state, left.len() + right.len())?;
    Ok(Value::from([left, right].concat()))
}

fn add(state: &State, left: Value, right: Value) -> Result<Value, Error> {
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        return join(state, left, right);
    }
    if is_list(&left) && is_list(&right) {
        let items: Vec<Value> = left.try_iter()?.chain(right.try_iter()?).take(MAX_ITEMS + 1).collect();
        return check(state, Value::from(items));
    }
    arithmetic(&left, &right, "+", i64::checked_add, |left, right| left + right)
}

fn multiply(state: &State, left: Value, right: Value) -> Result<Value, Error> {
    let (value, times) =
        if right.as_str().is_some() || is_list(&right) { (right, left) } else { (left, right) };
    if value.as_str().is_none() && !is_list(&value) {
        return arithmetic(&value, &times, "*", i64::checked_mul, |left, right| left * right);
    }
    let Some(times) = times.as_i64() else { return Err(impossible("*", &value, &times)) };
    let times = usize::try_from(times).unwrap_or(0);
    if let Some(text) = value.as_str() {
        charge(state, text.len().saturating_mul(times))?;
        return Ok(Value::from(text.repeat(times)));
    }
    let items: Vec<Value> = value.try_iter()?.collect();
    if items.len().saturating_mul(times) > MAX_ITEMS {
        return Err(Exceeded::Memory.into());
    }
    let repeated: Vec<Value> = std::iter::repeat_n(items, times).flatten().collect();
    check(state, Value::from(repeated))
}

fn arithmetic(
    left: &Value,
    right: &Value,
    name: &'static str,
    whole: fn(i64, i64) -> Option<i64>,
    real: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    let number = |value: &Value| {
        // Python counts with its truth values.
        if value.kind() == ValueKind::Bool { Some(Value::from(i64::from(value.is_true()))) } else { None }
    };
    let (left, right) =
        (number(left).unwrap_or_else(|| left.clone()), number(right).unwrap_or_else(|| right.clone()));
    if left.kind() != ValueKind::Number || right.kind() != ValueKind::Number {
        return Err(impossible(name, &left, &right));
    }
    if let (true, true, Some(a), Some(b)) =
        (left.is_integer(), right.is_integer(), left.as_i64(), right.as_i64())
    {
        return whole(a, b).map(Value::from).ok_or_else(|| impossible(name, &left, &right));
    }
    let real_of = |value: &Value| f64::try_from(value.clone()).map_err(|_| impossible(name, &left, &right));
    Ok(Value::from(real(real_of(&left)?, real_of(&right)?)))
}

fn impossible(name: &str, left: &Value, right: &Value) -> Error {
    let what = format!("cannot calculate {} {name} {}", left.kind(), right.kind());
    Error::new(ErrorKind::InvalidOperation, what)
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// Refuses a container that is too large or too deep, or that holds a namespace: those alone can change, so without
/// them no container holds itself. A sequence that is made as one goes through it is made here, for the same reason.
fn check(state: &State, value: Value) -> Result<Value, Error> {
    let mut items = 0;
    let solid = solid(&value, 0, &mut items)?;
    charge(state, items * size_of::<Value>())?;
    Ok(solid.unwrap_or(value))
}

/// A copy of a container, if it holds a sequence that is made as one goes; `items` counts what it holds.
fn solid(value: &Value, depth: usize, items: &mut usize) -> Result<Option<Value>, Error> {
    let is_map = value.kind() == ValueKind::Map;
    if !is_map && !is_list(value) {
        return Ok(None);
    }
    if depth > MAX_DEPTH || is_namespace(value) {
        return Err(Exceeded::Memory.into());
    }
    let mut copies = Vec::new();
    let mut is_copied = value.kind() == ValueKind::Iterable;
    for key in value.try_iter()? {
        *items += 1;
        if *items > MAX_ITEMS {
            return Err(Exceeded::Memory.into());
        }
        let item = if is_map { value.get_item(&key)? } else { key.clone() };
        let copy = solid(&item, depth + 1, items)?;
        is_copied |= copy.is_some();
        copies.push((key, copy.unwrap_or(item)));
    }
    Ok(is_copied.then(|| match is_map {
        true => Value::from_iter(copies),
        false => copies.into_iter().map(|(_, item)| item).collect(),
    }))
}

fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"))
}
