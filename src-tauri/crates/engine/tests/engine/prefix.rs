//! A prompt that begins like one already read does not read it again, and nobody can tell from the answer.

use crate::support::{Answer, Bench, Rng, expected_text, params, tokenizer};
use engine::{
    EngineConfig, EnginePhase, FinishReason, OwnerId,
    params::SamplingParams,
    testing::{Answer as Says, BadLogits, Call, FaultAt, Script},
};
use std::time::Duration;

fn script() -> Script {
    Script { answer: Says::Hashed { eos_one_in: 0 }, max_rows: 4, ..Script::default() }
}

/// A prompt of `tokens` tokens that no other shares a prefix with.
fn prompt(name: char, tokens: usize) -> String {
    let rest = (1..tokens).map(|i| char::from(b'A' + (i % 26) as u8));
    std::iter::once(name).chain(rest).collect()
}

/// Asks, waits for the end, and checks the answer against a cold computation. Returns text and cached tokens.
fn turn(bench: &mut Bench, owner: u64, prompt: &str) -> (String, u32) {
    let mut answer = bench.submit_turn(owner, prompt, params());
    bench.run();
    let (_, summary) = answer.finished();
    assert_eq!(answer.text, expected_text(&script(), prompt, &params()), "what a cold run says");
    (answer.text, summary.cached_tokens)
}

#[test]
fn a_next_turn_reads_only_what_is_new() {
    let mut bench = Bench::new(script());
    let first = prompt('p', 100);
    let (answer, cached) = turn(&mut bench, 1, &first);
    assert_eq!(cached, 0);
    let second = format!("{first}{answer} and the next question");
    let before = bench.tokens_read();
    let (_, cached) = turn(&mut bench, 1, &second);
    // The last token of an answer that was cut off is not in the KV cache.
    assert_eq!(cached as usize, 100 + answer.len() - 1);
    assert_eq!(bench.tokens_read() - before, second.len() - 1 - cached as usize);
}

#[test]
fn an_exact_hit_still_forwards_the_last_token_of_the_prompt() {
    let mut bench = Bench::new(script());
    turn(&mut bench, 1, &prompt('p', 100));
    let before = bench.tokens_read();
    let (_, cached) = turn(&mut bench, 1, &prompt('p', 100));
    assert_eq!((cached, bench.tokens_read() - before), (99, 0), "the first decode step takes the last token");
}

#[test]
fn a_hit_longer_than_the_prompt_is_cut_to_all_but_its_last_token() {
    let mut bench = Bench::new(script());
    turn(&mut bench, 1, &prompt('p', 200));
    let (_, cached) = turn(&mut bench, 1, &prompt('p', 120));
    assert_eq!(cached, 119);
}

#[test]
fn regenerating_with_the_same_seed_says_the_same_as_a_cold_run() {
    let mut bench = Bench::new(script());
    let question = prompt('p', 77);
    let (cold, _) = turn(&mut bench, 1, &question);
    let (warm, cached) = turn(&mut bench, 1, &question);
    assert_eq!((warm, cached), (cold, 76));
}

#[test]
fn a_turn_whose_history_lost_its_thinking_starts_at_the_end_of_the_last_prompt() {
    let mut bench = Bench::new(script());
    let first = prompt('p', 100);
    turn(&mut bench, 1, &first);
    assert_eq!(bench.engine.backend().snapshots(), 2, "the end of the prompt and the end of the answer");
    let stripped = format!("{first}[answer without its thinking]{}", prompt('q', 40));
    let restored = bench.calls().len();
    let (_, cached) = turn(&mut bench, 1, &stripped);
    assert_eq!(cached, 99, "not 0");
    let restore = bench.calls()[restored..].iter().find_map(|call| match call {
        Call::Restore(_, snapshot, _) => Some(*snapshot),
        _ => None,
    });
    let first_snapshot = bench.calls().iter().find_map(|call| match call {
        Call::Snapshot(snapshot, 99) => Some(*snapshot),
        _ => None,
    });
    assert_eq!(restore, first_snapshot, "the prompt's, so that the answer's may age");
}

// No KV cache here is a ring of the last few columns, so a snapshot can be cut at any length; a backend with rings
// would have to refuse, and the prompt would be read from the start.
#[test]
fn an_entry_may_be_cut_anywhere() {
    for shared in [32, 33, 50, 98, 99] {
        let mut bench = Bench::new(script());
        turn(&mut bench, 1, &prompt('p', 100));
        let other = format!("{}{}", &prompt('p', 100)[..shared], prompt('q', 60).to_lowercase());
        let (_, cached) = turn(&mut bench, 1, &other);
        assert_eq!(cached as usize, shared);
    }
    let mut bench = Bench::new(script());
    turn(&mut bench, 1, &prompt('p', 100));
    let (_, cached) = turn(&mut bench, 1, &format!("{}{}", &prompt('p', 31), prompt('q', 60).to_lowercase()));
    assert_eq!(cached, 0, "31 tokens are read faster than restored");
}

#[test]
fn a_row_that_goes_on_decoding_does_not_change_what_was_kept() {
    let mut bench = Bench::new(script());
    let question = prompt('p', 64);
    let mut long = bench.submit_turn(1, &question, SamplingParams { max_tokens: 60, ..params() });
    bench.steps(30);
    let mut same = bench.submit_turn(2, &question, SamplingParams { seed: Some(8), ..params() });
    bench.run();
    assert_eq!(same.finished().1.cached_tokens, 63);
    let other_seed = SamplingParams { seed: Some(8), ..params() };
    assert_eq!(same.text, expected_text(&script(), &question, &other_seed));
    let long_params = SamplingParams { max_tokens: 60, ..params() };
    assert_eq!(long.read().text, expected_text(&script(), &question, &long_params));
}

#[test]
fn a_stopped_answer_can_be_continued_from_where_it_stopped() {
    let mut bench = Bench::new(script());
    let question = prompt('p', 50);
    let mut stopped = bench.submit_turn(1, &question, SamplingParams { max_tokens: 1000, ..params() });
    bench.steps(12);
    bench.engine.cancel(stopped.id);
    bench.run();
    assert_eq!(stopped.finished().0, FinishReason::Cancelled);
    let (_, cached) = turn(&mut bench, 1, &format!("{question}{} go on", stopped.text));
    assert_eq!(cached as usize, 50 + stopped.text.len() - 1);
}

#[test]
fn a_failed_row_leaves_only_the_prompt_that_was_read_before() {
    let bad = BadLogits { first_token: 'p'.into(), after_tokens: 5, logit: f32::NAN };
    let mut bench = Bench::new(Script { bad_logits: Some(bad), ..script() });
    let mut failing = bench.submit_turn(1, &prompt('p', 64), params());
    bench.run();
    failing.failed();
    assert_eq!(snapshot_lengths(&bench), [63]);
}

fn snapshot_lengths(bench: &Bench) -> Vec<usize> {
    let length = |call: &Call| if let Call::Snapshot(_, tokens) = call { Some(*tokens) } else { None };
    bench.calls().iter().filter_map(length).collect()
}

#[test]
fn short_prompts_and_requests_without_an_owner_leave_nothing() {
    let mut bench = Bench::new(script());
    bench.submit_turn(1, &prompt('p', 10), SamplingParams { max_tokens: 5, ..params() });
    let answer = bench.submit(&prompt('q', 100), params());
    bench.run();
    drop(answer);
    assert_eq!(bench.engine.backend().snapshots(), 0);
}

#[test]
fn what_an_owner_left_goes_when_it_is_forgotten_even_while_it_answers() {
    let mut bench = Bench::new(script());
    turn(&mut bench, 1, &prompt('p', 100));
    let running = bench.submit_turn(1, &prompt('q', 100), params());
    bench.steps(6);
    assert!(bench.engine.snapshot(EnginePhase::Ready).ledger.unwrap().snapshot_bytes > 0);
    bench.engine.forget(OwnerId(1));
    bench.run();
    drop(running);
    assert_eq!(bench.engine.backend().snapshots(), 0);
    assert_eq!(bench.engine.snapshot(EnginePhase::Ready).ledger.unwrap().snapshot_bytes, 0);
}

#[test]
fn a_fault_of_the_backend_leaves_no_snapshot_to_start_from() {
    let mut bench = Bench::new(Script { faults: vec![FaultAt::Forward(40)], ..script() });
    let question = prompt('p', 100);
    turn(&mut bench, 1, &question);
    let mut failing = bench.submit_turn(1, &prompt('q', 40), SamplingParams { max_tokens: 100, ..params() });
    bench.run();
    failing.failed();
    assert_eq!(bench.engine.backend().snapshots(), 0);
    let (_, cached) = turn(&mut bench, 1, &question);
    assert_eq!(cached, 0);
}

fn cached_tokens(answers: &mut [Answer]) -> Vec<u32> {
    answers.iter_mut().map(|answer| answer.finished().1.cached_tokens).collect()
}

#[test]
fn equal_prompts_are_read_once() {
    for owner in [None, Some(OwnerId(1))] {
        let mut bench = Bench::new(script());
        let question = prompt('p', 600);
        let mut answers: Vec<_> = (0..4)
            .map(|seed| SamplingParams { seed: Some(seed), ..params() })
            .map(|params| bench.try_submit(&question, params, owner).unwrap())
            .collect();
        bench.run();
        assert_eq!(bench.tokens_read(), 599, "one prefill for four answers");
        assert_eq!(cached_tokens(&mut answers), [0, 599, 599, 599]);
        for (seed, answer) in answers.iter().enumerate() {
            let params = SamplingParams { seed: Some(seed as u64), ..params() };
            assert_eq!(answer.text, expected_text(&script(), &question, &params));
        }
        let kept = if owner.is_some() { 1 } else { 0 };
        assert!(bench.engine.backend().snapshots() >= kept, "nothing stays for nobody");
        assert!(owner.is_some() || bench.engine.backend().snapshots() == 0);
    }
}

#[test]
fn a_prompt_that_shares_a_beginning_goes_on_from_there_without_waiting_for_the_rest() {
    let script = Script { prefill_per_token: Duration::from_micros(500), context_tokens: 65_536, ..script() };
    let mut bench = Bench::new(script.clone());
    let common = prompt('p', 300);
    let long = format!("{common}{}", prompt('q', 20_000));
    let short = format!("{common}{}", prompt('r', 30).to_lowercase());
    let mut leader = bench.submit(&long, params());
    let mut follower = bench.submit(&short, params());
    bench.run();
    assert_eq!(bench.tokens_read(), long.len() - 1 + 30 - 1);
    let ((_, led), (_, followed)) = (leader.finished(), follower.finished());
    assert_eq!(followed.cached_tokens, 300);
    assert!(followed.ttft < led.ttft);
    // Two chunks that nobody has to wait for, one short step of its own, and a decode step.
    assert!(followed.ttft.unwrap() < Duration::from_secs(1), "{:?}", followed.ttft);
    assert_eq!(leader.text, expected_text(&script, &long, &params()));
    assert_eq!(follower.text, expected_text(&script, &short, &params()));
}

#[test]
fn when_a_leader_goes_the_next_reads_and_the_others_follow_it() {
    let slow = Script { prefill_per_token: Duration::from_millis(1), ..script() };
    let question = prompt('p', 2_000);
    for ending in [cancel as fn(&mut Bench, &Answer), forget_receiver] {
        let mut bench = Bench::new(slow.clone());
        let first = bench.submit(&question, params());
        let mut others: Vec<_> = (0..3).map(|_| bench.submit(&question, params())).collect();
        bench.steps(2);
        ending(&mut bench, &first);
        drop(first);
        let before = bench.tokens_read();
        assert!((1..1_999).contains(&before), "it is being read");
        bench.run();
        assert_eq!(bench.tokens_read() - before, 1_999, "once more, not three times");
        assert_eq!(cached_tokens(&mut others), [0, 1_999, 1_999]);
        for other in &others {
            assert_eq!(other.text, expected_text(&slow, &question, &params()));
        }
    }
}

fn cancel(bench: &mut Bench, answer: &Answer) {
    bench.engine.cancel(answer.id);
}

/// The receiver is dropped right after.
fn forget_receiver(_: &mut Bench, _: &Answer) {}

#[test]
fn a_prompt_that_cannot_be_read_fails_each_of_its_requests_alone() {
    let mut bench = Bench::new(Script { unreadable: Some('!'.into()), ..script() });
    let mut bad: Vec<_> = (0..2).map(|_| bench.submit(&prompt('!', 100), params())).collect();
    let mut good = bench.submit(&prompt('p', 100), params());
    bench.run();
    bad.iter_mut().for_each(|answer| _ = answer.failed());
    assert_eq!(good.read().text, expected_text(&script(), &prompt('p', 100), &params()));
}

#[test]
fn with_no_room_for_snapshots_every_prompt_is_read_on_its_own() {
    let config = EngineConfig { max_snapshot_bytes: Some(0), ..EngineConfig::new(tokenizer()) };
    let mut bench = Bench::with_config(script(), config);
    let mut answers: Vec<_> = (0..3).map(|_| bench.submit_turn(1, &prompt('p', 100), params())).collect();
    bench.run();
    assert_eq!((bench.tokens_read(), bench.engine.backend().snapshots()), (3 * 99, 0));
    assert_eq!(cached_tokens(&mut answers), [0, 0, 0]);
}

#[test]
fn snapshots_stay_within_their_share_and_the_oldest_go() {
    let bytes_per_token = 4;
    let config =
        EngineConfig { max_snapshot_bytes: Some(500 * bytes_per_token), ..EngineConfig::new(tokenizer()) };
    let mut bench = Bench::with_config(script(), config);
    for (owner, name) in [(1, 'p'), (2, 'q'), (3, 'r')] {
        turn(&mut bench, owner, &prompt(name, 100));
        let kept = bench.engine.snapshot(EnginePhase::Ready).ledger.unwrap().snapshot_bytes;
        assert!(kept <= 500 * bytes_per_token, "{kept} bytes");
    }
    assert_eq!(turn(&mut bench, 3, &prompt('r', 100)).1, 99);
    assert_eq!(turn(&mut bench, 1, &prompt('p', 100)).1, 0, "the first one went");
}

/// Random conversations that branch, stop and are forgotten.
#[test]
fn random_conversations_say_what_they_say_cold() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let share = rng.pick(&[None, Some(400), Some(2_000), Some(10_000)]);
        let config = EngineConfig { max_snapshot_bytes: share, ..EngineConfig::new(tokenizer()) };
        let script = Script {
            prefill_per_token: Duration::from_millis(1),
            step: Duration::from_millis(20),
            max_rows: 1 + rng.below(4),
            ..Script::default()
        };
        let mut bench = Bench::with_config(script.clone(), config);
        let mut histories = vec![prompt('p', 40); 4];
        let mut running: Vec<(usize, String, SamplingParams, Answer)> = Vec::new();
        for _ in 0..60 {
            match rng.below(8) {
                0 | 1 => {
                    let owner = rng.below(4);
                    let words = prompt(rng.pick(&['x', 'y']), 1 + rng.below(50));
                    let cut = histories[owner].len() - rng.below(20);
                    let prompt = format!("{}{words}", &histories[owner][..cut]);
                    let max_tokens = 1 + rng.below(20) as u32;
                    let params = SamplingParams { seed: Some(seed), max_tokens, ..params() };
                    let answer = bench.submit_turn(owner as u64, &prompt, params.clone());
                    running.push((owner, prompt, params, answer));
                }
                2 if !running.is_empty() => {
                    let victim = rng.below(running.len());
                    bench.engine.cancel(running[victim].3.id);
                }
                3 if rng.below(6) == 0 => bench.engine.forget(OwnerId(rng.below(4) as u64)),
                _ => bench.steps(2),
            }
            for (owner, prompt, _, answer) in &mut running {
                answer.read();
                histories[*owner] = format!("{prompt}{}", answer.text);
            }
        }
        bench.run();
        for (_, prompt, params, mut answer) in running {
            let reason = answer.finished().0;
            let expected = expected_text(&script, &prompt, &params);
            match reason {
                FinishReason::Cancelled => assert!(expected.starts_with(&answer.text)),
                _ => assert_eq!(answer.text, expected, "seed {seed}"),
            }
        }
        (0..4).for_each(|owner| bench.engine.forget(OwnerId(owner)));
        let backend = bench.engine.backend();
        assert_eq!((backend.snapshots(), backend.private_rows()), (0, 0), "seed {seed}");
    }
}
