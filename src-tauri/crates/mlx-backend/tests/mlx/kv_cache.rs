//! Rows of the batch's KV cache, without a model.

use mlx_backend::kv_cache::{ColumnWrites, KvCache, KvHeads, KvShape, PrivateKv};
use mlx_backend::mx::{self, Array, Dtype, Purpose, kv_write, ops};

const HEADS: KvHeads = KvHeads { kv_heads: 2, head_dim: 4 };
const LAYERS: usize = 2;

fn shape() -> KvShape {
    KvShape { layers: vec![HEADS; LAYERS], dtype: Dtype::Float32 }
}

fn filled(columns: i32, head_dim: i32, value: f32) -> Array {
    let count = (HEADS.kv_heads * columns * head_dim) as usize;
    Array::from_slice(&vec![value; count], &[1, HEADS.kv_heads, columns, head_dim])
}

/// A row of three columns of `value`, whose second layer has heads of another width.
fn row(value: f32, second_head_dim: i32) -> PrivateKv {
    let mut private = PrivateKv::default();
    for (layer, head_dim) in [HEADS.head_dim, second_head_dim].into_iter().enumerate() {
        let kv = || filled(3, head_dim, value);
        private.append(layer, kv(), kv(), 0..3).expect("builds");
    }
    private.settle(3).expect("runs");
    private
}

/// First element of the first four columns of row 0, keys of one layer, after 9 was written to column 3.
fn columns_after_a_write(cache: &mut KvCache, layer: usize) -> Vec<f32> {
    let rows = cache.rows();
    let columns = cache.columns(&vec![3; rows]).expect("builds");
    let fresh = vec![9.0_f32; rows * (HEADS.kv_heads * HEADS.head_dim) as usize];
    let fresh = Array::from_slice(&fresh, &[rows as i32, HEADS.kv_heads, 1, HEADS.head_dim]);
    let seen = cache.write(layer, &columns, &fresh, &fresh, 0..4).expect("builds");
    let keys = mx::read_f32(&ops::contiguous(&seen.keys).expect("builds"), Purpose::Probe).expect("runs");
    (0..4).map(|column| keys[column * HEADS.head_dim as usize]).collect()
}

fn kinds() -> Vec<ColumnWrites> {
    let mut kinds = vec![ColumnWrites::Functional];
    kinds.extend(kv_write::IS_SUPPORTED.then_some(ColumnWrites::InPlace));
    kinds
}

#[test]
fn a_join_that_fails_half_way_leaves_the_batch_as_it_was() {
    for writes in kinds() {
        let mut cache = KvCache::new(shape(), writes);
        cache.join(row(1.0, HEADS.head_dim)).expect("the first row joins");
        let bytes = cache.bytes();
        cache.join(row(2.0, 8)).expect_err("the second layer does not fit");
        assert_eq!((cache.rows(), cache.bytes()), (1, bytes), "{writes:?}");
        for layer in 0..LAYERS {
            let columns = columns_after_a_write(&mut cache, layer);
            assert_eq!(columns, [1.0, 1.0, 1.0, 9.0], "{writes:?}, layer {layer}");
        }
        cache.join(row(3.0, HEADS.head_dim)).expect("another row joins");
        cache.keep_rows(&[1]).expect("the first row leaves");
        assert_eq!(columns_after_a_write(&mut cache, 1), [3.0, 3.0, 3.0, 9.0], "{writes:?}");
    }
}

#[test]
fn a_prompt_read_in_chunks_holds_every_chunk_and_a_snapshot_of_it_stays_as_it_was() {
    let mut cache = KvCache::new(shape(), ColumnWrites::Functional);
    let mut private = PrivateKv::default();
    let mut snapshots = Vec::new();
    for (end, chunk) in [(1, 1.0), (2, 2.0), (3, 3.0_f32)] {
        for layer in 0..LAYERS {
            let columns = || filled(1, HEADS.head_dim, chunk);
            private.append(layer, columns(), columns(), 0..end).expect("builds");
        }
        private.settle(1).expect("runs");
        snapshots.push(private.prefix(private.tokens()).expect("copies"));
    }
    cache.join(private).expect("the row joins");
    assert_eq!(columns_after_a_write(&mut cache, 1), [1.0, 2.0, 3.0, 9.0]);
    let mut early = KvCache::new(shape(), ColumnWrites::Functional);
    early.join(snapshots.swap_remove(1)).expect("the snapshot joins");
    assert_eq!(columns_after_a_write(&mut early, 1)[..3], [1.0, 2.0, 0.0], "the third chunk came later");
}

#[test]
fn a_column_written_in_place_is_seen_by_what_was_submitted_later_and_not_before() {
    if !kv_write::IS_SUPPORTED {
        return;
    }
    let mut cache = KvCache::new(shape(), ColumnWrites::InPlace);
    cache.join(row(1.0, HEADS.head_dim)).expect("the row joins");
    let before = cache.copy_row(0, 3).expect("a copy is submitted");
    let columns = cache.columns(&[2]).expect("builds");
    let fresh = filled(1, HEADS.head_dim, 9.0);
    let seen = cache.write(0, &columns, &fresh, &fresh, 0..3).expect("builds");
    mx::wait([&seen.keys], Purpose::Probe).expect("runs");
    let mut other = KvCache::new(shape(), ColumnWrites::InPlace);
    other.join(before).expect("the copy joins");
    assert_eq!(
        columns_after_a_write(&mut other, 0),
        [1.0, 1.0, 1.0, 9.0],
        "the copy is older than the write"
    );
    assert_eq!(columns_after_a_write(&mut cache, 0), [1.0, 1.0, 9.0, 9.0]);
}

#[test]
fn layers_may_have_heads_of_their_own() {
    let layers = vec![HEADS, KvHeads { kv_heads: 1, head_dim: 8 }];
    for writes in kinds() {
        let mut cache = KvCache::new(KvShape { layers: layers.clone(), dtype: Dtype::Float32 }, writes);
        let mut private = PrivateKv::default();
        let content = |heads: &KvHeads, value: f32| {
            let shape = [1, heads.kv_heads, 1, heads.head_dim];
            Array::from_slice(&vec![value; shape.iter().product::<i32>() as usize], &shape)
        };
        for (layer, heads) in layers.iter().enumerate() {
            let kv = content(heads, layer as f32);
            private.append(layer, kv.clone(), kv, 0..1).expect("builds");
        }
        private.settle(1).expect("runs");
        cache.join(private).expect("the row joins");
        cache.join(PrivateKv::default()).expect("a row without tokens joins");
        assert_eq!(cache.bytes() % (2 * 2 * 4 * (8 + 8)), 0, "two rows of both layers");
        cache.keep_rows(&[0]).expect("the empty row leaves");
        for (layer, heads) in layers.iter().enumerate() {
            let columns = cache.columns(&[1]).expect("builds");
            let fresh = content(heads, 9.0);
            cache.write(layer, &columns, &fresh, &fresh, 0..2).expect("builds");
            let seen = cache.read(layer, 0..2).expect("builds");
            let values = mx::read_f32(&ops::contiguous(&seen.values).expect("builds"), Purpose::Probe);
            let values = values.expect("runs");
            let width = heads.head_dim as usize;
            assert_eq!((values[0], values[width]), (layer as f32, 9.0), "{writes:?}, layer {layer}");
        }
    }
}
