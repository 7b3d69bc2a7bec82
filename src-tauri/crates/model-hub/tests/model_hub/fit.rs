//! Memory fit: cases computed by hand, and what must hold whatever the numbers are.

use model_hub::{
    TensorHeader, WeightDtype, WeightHeaders,
    fit::{DeviceMemory, FitReport, KvFacts, MemoryKind, Needs, Plan, Verdict, WeightStorage, check, needs},
};

use crate::random::Random;

const GIB: u64 = 1 << 30;

fn tensor(name: &str, dtype: WeightDtype, shape: &[u64]) -> TensorHeader {
    let bytes = dtype.bytes() * shape.iter().product::<u64>();
    TensorHeader { name: name.to_string(), dtype, shape: shape.to_vec(), bytes }
}

fn headers(tensors: Vec<TensorHeader>) -> WeightHeaders {
    let file_bytes = tensors.iter().map(|tensor| tensor.bytes).sum();
    WeightHeaders { tensors, file_bytes }
}

/// An affine matrix as MLX stores it.
fn packed(module: &str, rows: u64, columns: u64, bits: u64, group: u64) -> [TensorHeader; 3] {
    [
        tensor(&format!("{module}.weight"), WeightDtype::U32, &[rows, columns * bits / 32]),
        tensor(&format!("{module}.scales"), WeightDtype::Bf16, &[rows, columns / group]),
        tensor(&format!("{module}.biases"), WeightDtype::Bf16, &[rows, columns / group]),
    ]
}

/// mlx-community/Qwen3-4B-4bit by its config: 36 layers of 2560, 32 heads and 8 KV heads of 128, MLP 9728, groups of 64.
fn qwen3_4b() -> (WeightHeaders, KvFacts) {
    let mut tensors = packed("model.embed_tokens", 151_936, 2560, 4, 64).to_vec();
    let norm = |name: String, width| tensor(&name, WeightDtype::Bf16, &[width]);
    for layer in 0..36 {
        let module = |name: &str| format!("model.layers.{layer}.{name}");
        for (name, rows, columns) in [
            ("self_attn.q_proj", 4096, 2560),
            ("self_attn.k_proj", 1024, 2560),
            ("self_attn.v_proj", 1024, 2560),
            ("self_attn.o_proj", 2560, 4096),
            ("mlp.gate_proj", 9728, 2560),
            ("mlp.up_proj", 9728, 2560),
            ("mlp.down_proj", 2560, 9728),
        ] {
            tensors.extend(packed(&module(name), rows, columns, 4, 64));
        }
        for (name, width) in [("input_layernorm", 2560), ("post_attention_layernorm", 2560)] {
            tensors.push(norm(module(&format!("{name}.weight")), width));
        }
        for name in ["self_attn.q_norm.weight", "self_attn.k_norm.weight"] {
            tensors.push(norm(module(name), 128));
        }
    }
    tensors.push(norm("model.norm.weight".into(), 2560));
    // Keys and values in bf16.
    let bytes_per_token = 2 * 36 * 8 * 128 * 2;
    let facts = KvFacts { bytes_per_token, context_tokens: 40_960, layers: 36, vocab: 151_936, hidden: 2560 };
    (headers(tensors), facts)
}

/// A Mac of 16 GiB recommends a working set of 11,453 MiB.
const MAC_16: DeviceMemory =
    DeviceMemory { kind: MemoryKind::Unified, total_bytes: 16 * GIB, free_bytes: 11_453 << 20 };

fn four_tabs(context_tokens: u32) -> Plan {
    Plan { tabs: 4, context_tokens, freed_bytes: 0 }
}

#[test]
fn qwen3_4b_in_4_bits_is_tight_on_16_gb_with_four_tabs_of_8192() {
    let (headers, facts) = qwen3_4b();
    let needs = needs(&headers, facts, WeightStorage::AsStored);
    // 4,022,272,000 weights at half a byte and 4 bytes per 64 of them; 196,096 of norms.
    assert_eq!(needs.weights_bytes, 4_022_272_000 / 16 * 9 + 196_096 * 2);
    // A layer of 100,925,440 weights and 5,376 of norms is less than the embedding of 388,956,160.
    assert_eq!(needs.load_peak_bytes, needs.weights_bytes + 388_956_160 / 16 * 9);

    let report = check(&needs, MAC_16, four_tabs(8192));
    // 8192 tokens have 12,288 columns.
    assert_eq!(report.kv_cache_bytes_per_tab, 12_288 * 147_456);
    let copied = 4 * 12_288 * 147_456 / 36;
    assert_eq!(
        report.workspace_bytes,
        2560 * 65_536 + copied + 8192 * 147_456 + 4 * 151_936 * 24,
        "activations, one layer copied, one prompt being read, logits"
    );
    assert_eq!(report.reserve_bytes, 256 << 20, "the recommendation leaves the system its part already");
    assert_eq!(report.needed_bytes, 2_262_920_192 + 7_247_757_312 + 1_591_644_160 + (256 << 20));
    assert_eq!((report.verdict, report.offered_context_tokens), (Verdict::Tight, None));
}

#[test]
fn its_whole_context_does_not_fit_there_and_8192_is_offered() {
    let (headers, facts) = qwen3_4b();
    let needs = needs(&headers, facts, WeightStorage::AsStored);
    let report = check(&needs, MAC_16, four_tabs(u32::MAX));
    assert_eq!(report.context_tokens, 40_960, "the model's own is the limit");
    assert_eq!((report.verdict, report.offered_context_tokens), (Verdict::TooLarge, Some(8192)));
    let alone = check(&needs, MAC_16, Plan { tabs: 1, ..four_tabs(u32::MAX) });
    assert_eq!(alone.offered_context_tokens, Some(24_576), "one tab can have more");
}

#[test]
fn a_model_larger_than_memory_has_no_context_to_offer() {
    let (headers, facts) = qwen3_4b();
    let needs = needs(&headers, facts, WeightStorage::FullPrecision);
    let host = DeviceMemory { kind: MemoryKind::Host, total_bytes: 3 * GIB, free_bytes: 3 * GIB };
    let report = check(&needs, host, four_tabs(4096));
    assert_eq!((report.verdict, report.offered_context_tokens), (Verdict::TooLarge, None));
    assert!(report.needed_bytes > report.free_bytes);
}

#[test]
fn it_fits_an_h200_with_eight_whole_contexts() {
    let (headers, facts) = qwen3_4b();
    let needs = needs(&headers, facts, WeightStorage::AsStored);
    let h200 = DeviceMemory { kind: MemoryKind::Discrete, total_bytes: 139 * GIB, free_bytes: 138 * GIB };
    let report = check(&needs, h200, Plan { tabs: 8, ..four_tabs(u32::MAX) });
    assert_eq!(report.verdict, Verdict::Fits);
    assert_eq!(report.reserve_bytes, 256 << 20, "nobody else uses it");
}

#[test]
fn the_cpu_keeps_4_and_8_bits_and_stacks_packed_and_everything_else_in_f32() {
    let facts = KvFacts { bytes_per_token: 1, context_tokens: 64, layers: 1, vocab: 512, hidden: 256 };
    let kept = |tensors: Vec<TensorHeader>| {
        let mut all = packed("model.embed_tokens", 512, 256, 4, 64).to_vec();
        let embedding = needs(&headers(all.clone()), facts, WeightStorage::FullPrecision).weights_bytes;
        assert_eq!(embedding, 512 * 256 / 2 + 512 * 4 * 2 * 4, "scales and biases in f32");
        all.extend(tensors);
        needs(&headers(all), facts, WeightStorage::FullPrecision).weights_bytes - embedding
    };
    let matrix = |bits, group| packed("model.layers.0.mlp.up_proj", 512, 256, bits, group).to_vec();
    assert_eq!(kept(matrix(8, 64)), 512 * 256 + 512 * 4 * 2 * 4);
    for bits in [2, 3, 5, 6] {
        assert_eq!(kept(matrix(bits, 64)), 512 * 256 * 4, "{bits} bits become f32");
    }
    assert_eq!(kept(vec![tensor("model.norm.weight", WeightDtype::F16, &[256])]), 256 * 4);
    assert_eq!(kept(vec![tensor("model.ids", WeightDtype::U32, &[7])]), 28, "words without scales");
    let mxfp4 = vec![
        tensor("model.layers.0.mlp.up_proj.weight", WeightDtype::U32, &[512, 32]),
        tensor("model.layers.0.mlp.up_proj.scales", WeightDtype::U8, &[512, 8]),
    ];
    assert_eq!(kept(mxfp4), 512 * 256 * 4);
    let stacked = vec![
        tensor("model.layers.0.mlp.experts.up.weight", WeightDtype::U32, &[4, 16, 32]),
        tensor("model.layers.0.mlp.experts.up.scales", WeightDtype::F16, &[4, 16, 4]),
        tensor("model.layers.0.mlp.experts.up.biases", WeightDtype::F16, &[4, 16, 4]),
    ];
    assert_eq!(
        kept(stacked),
        4 * 16 * 256 / 2 + 4 * 16 * 4 * 2 * 4,
        "4 bits, groups of 64, as the embedding"
    );
    let stacked = vec![
        tensor("model.layers.0.mlp.experts.up.weight", WeightDtype::U32, &[4, 16, 32]),
        tensor("model.layers.0.mlp.experts.up.scales", WeightDtype::U8, &[4, 16, 8]),
    ];
    assert_eq!(kept(stacked), 4 * 16 * 256 / 2 + 4 * 16 * 8, "mxfp4 as in the files");
}

#[test]
fn a_small_models_context_goes_down_in_steps_of_256() {
    let needs = Needs {
        weights_bytes: 0,
        load_peak_bytes: 0,
        kv_cache_bytes_per_token: 1 << 20,
        context_tokens: 1500,
        layers: 1 << 20,
        workspace_bytes: 0,
        logits_bytes_per_tab: 0,
    };
    let memory = DeviceMemory { kind: MemoryKind::Discrete, total_bytes: 3 * GIB, free_bytes: 2432 << 20 };
    let report = check(&needs, memory, Plan { tabs: 1, context_tokens: 1500, freed_bytes: 0 });
    // 1,500 tokens take 1,536 columns and a prompt of 1,500: 3,036 MiB; 1,024 take 2,048 of 2,280.
    assert_eq!(report.offered_context_tokens, Some(1024));
}

struct Case {
    needs: Needs,
    memory: DeviceMemory,
    plan: Plan,
}

fn any_case(random: &mut Random) -> Case {
    let kinds = [MemoryKind::Unified, MemoryKind::Discrete, MemoryKind::Host];
    let total_bytes = random.size(40);
    let weights_bytes = random.size(38);
    Case {
        needs: Needs {
            weights_bytes,
            load_peak_bytes: weights_bytes + random.size(32),
            kv_cache_bytes_per_token: random.size(22),
            context_tokens: random.size(20) as u32,
            layers: random.below(100) as u32,
            workspace_bytes: random.size(30),
            logits_bytes_per_tab: random.size(24),
        },
        memory: DeviceMemory {
            kind: kinds[random.below(3) as usize],
            total_bytes,
            free_bytes: random.below(total_bytes + 1),
        },
        plan: Plan {
            tabs: random.below(9) as u32,
            context_tokens: random.size(20) as u32,
            freed_bytes: random.size(30),
        },
    }
}

impl Case {
    fn check(&self) -> FitReport {
        check(&self.needs, self.memory, self.plan)
    }
}

#[test]
fn more_of_anything_needed_never_fits_better_and_more_memory_never_worse() {
    let mut random = Random::new(11);
    for _ in 0..20_000 {
        let case = any_case(&mut random);
        let before = case.check();
        let more = random.size(32);
        let verdict = |change: &dyn Fn(&mut Case)| {
            let mut changed = Case { ..case };
            change(&mut changed);
            changed.check().verdict
        };
        let grow = |tokens: u32| tokens.saturating_add(more as u32);
        let harder: [&dyn Fn(&mut Case); 8] = [
            &|case| case.needs.weights_bytes += more,
            &|case| case.needs.load_peak_bytes += more,
            &|case| case.needs.kv_cache_bytes_per_token += more,
            &|case| case.needs.context_tokens = grow(case.needs.context_tokens),
            &|case| case.needs.workspace_bytes += more,
            &|case| case.needs.logits_bytes_per_tab += more,
            &|case| case.plan.context_tokens = grow(case.plan.context_tokens),
            &|case| case.plan.tabs = case.plan.tabs.saturating_add(more as u32),
        ];
        for (which, change) in harder.iter().enumerate() {
            assert!(verdict(change) >= before.verdict, "need {which} grew by {more}");
        }
        let easier: [&dyn Fn(&mut Case); 4] = [
            &|case| case.memory.total_bytes += more,
            &|case| case.memory.free_bytes = (case.memory.free_bytes + more).min(case.memory.total_bytes),
            &|case| case.plan.freed_bytes += more,
            &|case| case.needs.layers += 1,
        ];
        for (which, change) in easier.iter().enumerate() {
            assert!(verdict(change) <= before.verdict, "memory {which} grew by {more}");
        }
    }
}

#[test]
fn the_sums_agree_and_the_verdict_follows_from_them() {
    let mut random = Random::new(12);
    for _ in 0..20_000 {
        let case = any_case(&mut random);
        let report = case.check();
        let kv_cache_bytes = report.kv_cache_bytes_per_tab * u64::from(report.tabs);
        let running = report.weights_bytes + kv_cache_bytes + report.workspace_bytes;
        assert_eq!(report.needed_bytes, running.max(case.needs.load_peak_bytes) + report.reserve_bytes);
        assert_eq!(report.verdict == Verdict::TooLarge, report.needed_bytes > report.free_bytes);
        assert!(report.free_bytes <= report.total_bytes);
    }
}

#[test]
fn the_offered_context_fits_and_one_step_more_does_not() {
    let mut random = Random::new(13);
    let mut offers = 0;
    for _ in 0..100_000 {
        let mut case = any_case(&mut random);
        let Some(offered) = case.check().offered_context_tokens else { continue };
        offers += 1;
        let planned = case.plan.context_tokens.min(case.needs.context_tokens);
        let step = if case.needs.context_tokens < 2048 { 256 } else { 1024 };
        assert!(offered < planned && offered % step == 0);
        assert!(offered >= 2048 || case.needs.context_tokens < 2048, "{offered} is too short to chat in");
        case.plan.context_tokens = offered;
        assert_ne!(case.check().verdict, Verdict::TooLarge);
        case.plan.context_tokens = (offered + step).min(planned);
        assert_eq!(case.check().verdict, Verdict::TooLarge, "{offered} and {step} more would have fit");
    }
    assert!(offers > 500, "{offers} offers are too few to say anything");
}

#[test]
fn hostile_numbers_saturate() {
    let needs = Needs {
        weights_bytes: u64::MAX,
        load_peak_bytes: u64::MAX,
        kv_cache_bytes_per_token: u64::MAX,
        context_tokens: u32::MAX,
        layers: 0,
        workspace_bytes: u64::MAX,
        logits_bytes_per_tab: u64::MAX,
    };
    for kind in [MemoryKind::Unified, MemoryKind::Discrete, MemoryKind::Host] {
        let memory = DeviceMemory { kind, total_bytes: u64::MAX, free_bytes: u64::MAX };
        let plan = Plan { tabs: u32::MAX, context_tokens: u32::MAX, freed_bytes: u64::MAX };
        let report = check(&needs, memory, plan);
        assert_eq!((report.verdict, report.offered_context_tokens), (Verdict::TooLarge, None));
    }
}
