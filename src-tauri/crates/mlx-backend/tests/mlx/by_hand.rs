//! Attention of one head, in f64 and in the order of its definition.

use std::ops::Range;

/// One query over some columns of keys and values, each as wide as the query.
pub struct Head<'a> {
    pub q: &'a [f32],
    pub keys: &'a [f32],
    pub values: &'a [f32],
    pub columns: Range<usize>,
    pub scale: f32,
    pub softcap: Option<f32>,
    pub sink: Option<f32>,
}

/// Its result, as wide as the query.
pub fn attention(head: &Head<'_>) -> Vec<f32> {
    let width = head.q.len();
    let vector = |of: &'_ [f32], column: usize| -> Vec<f64> {
        of[column * width..(column + 1) * width].iter().map(|value| f64::from(*value)).collect()
    };
    let score = |column: usize| {
        let key = vector(head.keys, column);
        let product: f64 = head.q.iter().zip(key).map(|(a, b)| f64::from(*a) * b).sum();
        let score = f64::from(head.scale) * product;
        head.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
    };
    let weights: Vec<f64> = head.columns.clone().map(|column| score(column).exp()).collect();
    let all = weights.iter().sum::<f64>() + head.sink.map_or(0.0, |sink| f64::from(sink).exp());
    let mut out = vec![0.0; width];
    for (column, weight) in head.columns.clone().zip(weights) {
        for (sum, value) in out.iter_mut().zip(vector(head.values, column)) {
            *sum += weight / all * value;
        }
    }
    out.into_iter().map(|value| value as f32).collect()
}
