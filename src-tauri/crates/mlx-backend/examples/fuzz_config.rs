//! Feeds mutated configs to what reads one: `fuzz_config <seconds> [first seed]`.
//!
//! Starts from the configs of the architectures' fixtures. Each case must end in a config or in an error, within 64 MiB
//! and ten seconds; at the first that does not, the config is printed and the exit code is 1. Each case follows from
//! its seed alone.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use mlx_backend::config::ModelConfig;
use serde_json::{Map, Value, json};

/// Memory that parsing a config may take beyond its size.
const SPARE_BYTES: usize = 64 << 20;
const CASE_LIMIT: Duration = Duration::from_secs(10);

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counted;

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE_BYTES.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(live, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// Source: Marsaglia 2003, "Xorshift RNGs", the 64-bit variant 13, 7, 17.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }
}

/// What configs are made of: whole ones, and every field and value that occurs in one.
struct Samples {
    configs: Vec<Value>,
    fields: Vec<(String, Value)>,
}

impl Samples {
    fn of_fixtures() -> Option<Samples> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/architectures");
        let mut paths: Vec<_> = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let mut samples = Samples { configs: Vec::new(), fields: Vec::new() };
        for path in paths {
            let mut fixture: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
            let config = fixture["config"].take();
            samples.collect(&config);
            samples.configs.push(config);
        }
        (!samples.configs.is_empty()).then_some(samples)
    }

    fn collect(&mut self, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten() {
            self.fields.push((name.clone(), value.clone()));
            self.collect(value);
        }
    }

    fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut config = self.configs[random.below(self.configs.len())].clone();
        for _ in 0..random.below(6) {
            let mut countdown = random.below(nodes(&config));
            visit(&mut config, &mut countdown, &mut |value| self.change(random, value));
        }
        let mut text = config.to_string().into_bytes();
        if random.below(8) == 0 {
            let at = random.below(text.len());
            match random.below(3) {
                0 => text.truncate(at),
                1 => text[at] ^= 1 << random.below(8),
                _ => drop(text.splice(at..at, "[".repeat(random.below(1 << 12)).into_bytes())),
            }
        }
        text
    }

    fn change(&self, random: &mut Random, value: &mut Value) {
        let (name, other) = self.fields[random.below(self.fields.len())].clone();
        match (value, random.below(5)) {
            (Value::Object(fields), 0 | 1) => drop(fields.insert(name, other)),
            (Value::Object(fields), 2) => {
                let gone = fields.keys().nth(random.below(fields.len())).cloned();
                gone.and_then(|gone| fields.remove(&gone));
            }
            (Value::Array(items), 0 | 1) if !items.is_empty() => {
                *items = items.iter().cloned().cycle().take(random.below(1 << 12)).collect();
            }
            (value, 3) => *value = other,
            (value, _) => *value = edge(random),
        }
    }
}

fn edge(random: &mut Random) -> Value {
    let edges =
        [0, 1, 2, 3, 255, 1023, 1024, 1025, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, i64::from(i32::MAX)];
    match random.below(12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!([]),
        3 => json!({}),
        4 => json!(f64::from_bits(random.bits())),
        5 => json!(random.bits()),
        6 => json!(-(random.bits() as i64 >> random.below(64))),
        7 => json!("full_attention"),
        8 => Value::Object(Map::from_iter([("rope_type".to_owned(), json!("yarn"))])),
        9 => json!(random.bits() >> random.below(64)),
        _ => json!(edges[random.below(edges.len())]),
    }
}

fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(fields) => fields.values().map(nodes).sum(),
        _ => 0,
    }
}

/// Applies `change` to the node that `countdown` counts to.
fn visit(value: &mut Value, countdown: &mut usize, change: &mut dyn FnMut(&mut Value)) -> bool {
    if *countdown == 0 {
        change(value);
        return true;
    }
    *countdown -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| visit(item, countdown, change)),
        Value::Object(fields) => fields.values_mut().any(|field| visit(field, countdown, change)),
        _ => false,
    }
}

/// Whether the config was accepted, and the most memory it took.
fn run(input: &[u8]) -> Result<(bool, usize), String> {
    let before = LIVE_BYTES.load(Relaxed);
    PEAK_BYTES.store(before, Relaxed);
    let outcome =
        std::panic::catch_unwind(|| match ModelConfig::from_json(input, Path::new("config.json")) {
            Ok(config) => {
                let bytes = config.kv_cache_bytes_per_token(4);
                (1..=1024).contains(&config.layers)
                    && config.hidden > 0
                    && config.vocab > 0
                    && bytes < 1 << 48
            }
            Err(error) => !error.to_string().is_empty(),
        });
    let peak_bytes = PEAK_BYTES.load(Relaxed) - before;
    match outcome {
        Err(_) => Err("panics".to_owned()),
        Ok(false) => Err("is accepted with impossible sizes, or refused without a word".to_owned()),
        Ok(true) if peak_bytes > input.len() + SPARE_BYTES => Err(format!("takes {peak_bytes} bytes")),
        Ok(true) => Ok((ModelConfig::from_json(input, Path::new("config.json")).is_ok(), peak_bytes)),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let (Some(seconds), Some(samples)) = (number(0), Samples::of_fixtures()) else {
        eprintln!("usage: fuzz_config <seconds> [first seed], beside the sources");
        return ExitCode::from(2);
    };
    let started = Instant::now();
    let (mut cases, mut accepted, mut peak_bytes, mut slowest) = (0_u64, 0_u64, 0, Duration::ZERO);
    for seed in number(1).unwrap_or(1_000_000).. {
        let began = Instant::now();
        if began.duration_since(started) >= Duration::from_secs(seconds) {
            break;
        }
        let input = samples.input(&mut Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1));
        let outcome = run(&input);
        let took = began.elapsed();
        match outcome {
            Ok((is_accepted, case_bytes)) if took < CASE_LIMIT => {
                cases += 1;
                accepted += u64::from(is_accepted);
                peak_bytes = peak_bytes.max(case_bytes);
                slowest = slowest.max(took);
            }
            outcome => {
                let finding = outcome.err().unwrap_or_else(|| format!("takes {took:?}"));
                eprintln!("seed {seed} {finding}: {}", String::from_utf8_lossy(&input));
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "{cases} configs in {seconds} s, {accepted} accepted, {:.1} MiB at most, slowest {:.1} ms",
        peak_bytes as f64 / f64::from(1 << 20),
        slowest.as_secs_f64() * 1e3
    );
    ExitCode::SUCCESS
}
