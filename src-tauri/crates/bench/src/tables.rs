//! Measurements as Markdown, for people.

use crate::report::Line;
use std::fmt::Write;

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".into())
}

fn find<'a>(lines: &'a [Line], like: &Line, arm: &str) -> Option<&'a Line> {
    lines.iter().find(|line| {
        line.arm == arm
            && (line.batch, line.sampling, line.logprobs) == (like.batch, like.sampling, like.logprobs)
    })
}

fn spread(line: &Line) -> String {
    let rates = &line.decode_tok_s_trials;
    let (low, high) =
        rates.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    format!("{:.1} [{low:.1}–{high:.1}]", line.decode_tok_s)
}

/// Speed of every arm without logprobs, with its ratios to the per-row arm and to mlx-lm in the same run.
pub fn speed(lines: &[Line]) -> String {
    let mut table = String::from(
        "| B | sampling | arm | tok/s | vs strict | vs mlx-lm | step ms | ITL p50 / p95 ms | evals | waits | reads | sampler | overlapped |
|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for line in lines.iter().filter(|line| line.logprobs.is_none()) {
        let ratio = |arm: &str| {
            let base = find(lines, line, arm)?;
            Some(format!("{:.2}x", line.decode_tok_s / base.decode_tok_s))
        };
        let count = |value: fn(&crate::measured::PerStep) -> f64| {
            or_dash(line.per_step.as_ref().map(|per_step| short(value(per_step))))
        };
        let overlapped = line.per_step.filter(|per_step| per_step.forwards_ahead > 0.0);
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} | {:.2} | {} | {} | {} | {} | {} | {} |",
            line.batch,
            line.sampling,
            line.arm,
            spread(line),
            or_dash(ratio("strict")),
            or_dash(ratio("mlx-lm")),
            line.step_ms_p50,
            or_dash(line.itl_ms_p50.zip(line.itl_ms_p95).map(|(p50, p95)| format!("{p50:.2} / {p95:.2}"))),
            count(|per_step| per_step.evals),
            count(|per_step| per_step.waits),
            count(|per_step| per_step.host_reads),
            or_dash(line.sampler_share.map(percent)),
            or_dash(overlapped.map(|per_step| percent(per_step.forwards_overlapped))),
        );
    }
    table
}

/// Where the time of a step goes, for every arm that says.
pub fn profile(lines: &[Line]) -> String {
    let mut table = String::from(
        "| B | sampling | logprobs | arm | step ms | forward | sampling | wait | host | in submissions | width misses |
|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for line in lines {
        let (Some(profile), Some(per_step)) = (line.profile, line.per_step) else { continue };
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} |",
            line.batch,
            line.sampling,
            or_dash(line.logprobs.map(|count| count.to_string())),
            line.arm,
            line.step_ms_p50,
            profile.forward_ms,
            profile.sample_ms,
            profile.wait_ms,
            profile.host_ms,
            profile.submit_ms,
            short(per_step.width_misses),
        );
    }
    table
}

/// What reporting logprobs adds to a step; `None` if nothing was measured with them.
pub fn logprobs(lines: &[Line]) -> Option<String> {
    let with: Vec<&Line> = lines.iter().filter(|line| line.logprobs.is_some()).collect();
    let mut cells: Vec<(usize, &str)> = with.iter().map(|line| (line.batch, line.arm)).collect();
    cells.sort_unstable_by_key(|(batch, arm)| (*batch, std::cmp::Reverse(*arm)));
    cells.dedup();
    let mut counts: Vec<u8> = with.iter().filter_map(|line| line.logprobs).collect();
    counts.sort_unstable();
    counts.dedup();
    if cells.is_empty() {
        return None;
    }
    let heads: String = counts.iter().map(|count| format!(" top {count}: step ms (added) |")).collect();
    let mut table =
        format!("| B | arm | off: step ms |{heads}\n|---|---|---|{}\n", "---|".repeat(counts.len()));
    for (batch, arm) in cells {
        let at = |logprobs: Option<u8>| {
            let same = |line: &&Line| line.batch == batch && line.arm == arm && line.logprobs == logprobs;
            // Without logprobs there are other samplings too.
            lines
                .iter()
                .filter(same)
                .find(|line| line.sampling == with[0].sampling)
                .map(|line| line.step_ms_p50)
        };
        let off = at(None);
        let _ = write!(table, "| {batch} | {arm} | {} |", or_dash(off.map(|ms| format!("{ms:.2}"))));
        for count in &counts {
            let cell = at(Some(*count))
                .zip(off)
                .map(|(on, off)| format!("{on:.2} ({:+.2}, {:+.1} %)", on - off, (on / off - 1.0) * 100.0));
            let _ = write!(table, " {} |", or_dash(cell));
        }
        table.push('\n');
    }
    Some(table)
}

/// The comparisons that the engine is judged by.
pub fn ratios(lines: &[Line]) -> String {
    let at = |batch: usize, sampling: &str, arm: &str| {
        let same = |line: &&Line| {
            (line.batch, line.sampling, line.arm, line.logprobs) == (batch, sampling, arm, None)
        };
        lines.iter().find(same).map(|line| line.decode_tok_s)
    };
    let mut batches: Vec<usize> = lines.iter().map(|line| line.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let mut table = String::from(
        "| B | compared | split | split+overlap | folded | folded+overlap |\n|---|---|---|---|---|---|\n",
    );
    let mut row = |batch: usize, what: &str, of: &dyn Fn(&str) -> Option<f64>| {
        let cells: Vec<Option<f64>> =
            ["split", "split+overlap", "folded", "folded+overlap"].iter().map(|arm| of(arm)).collect();
        if cells.iter().any(Option::is_some) {
            let cells: Vec<String> =
                cells.into_iter().map(|cell| or_dash(cell.map(|ratio| format!("{ratio:.2}x")))).collect();
            let _ = writeln!(table, "| {batch} | {what} | {} |", cells.join(" | "));
        }
    };
    for batch in batches {
        for sampling in ["greedy", "T 0.7, top-p 0.9"] {
            let against = |base: Option<f64>| move |arm: &str| Some(at(batch, sampling, arm)? / base?);
            row(batch, &format!("{sampling}: over strict"), &against(at(batch, sampling, "strict")));
            row(batch, &format!("{sampling}: over mlx-lm"), &against(at(batch, sampling, "mlx-lm")));
            if batch > 1 {
                let over_one = |arm: &str| Some(at(batch, sampling, arm)? / at(1, sampling, arm)?);
                row(batch, &format!("{sampling}: over B = 1"), &over_one);
            }
        }
        let over_plain =
            |arm: &str| Some(at(batch, "one JSON row", arm)? / at(batch, "T 0.7, top-p 0.9", arm)?);
        row(batch, "one JSON row: over none", &over_plain);
    }
    table
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A count per step: whole where it is whole.
fn short(value: f64) -> String {
    if (value - value.round()).abs() < 5e-3 { format!("{value:.0}") } else { format!("{value:.2}") }
}
