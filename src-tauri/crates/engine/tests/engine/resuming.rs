//! An answer that goes on says what it would have said uncut, wherever it was cut.

use std::sync::Arc;

use crate::{
    parity::{MODES, Transcript, random_params, random_script, tokenizer as thinking, transcript},
    support::{Answer, Bench, Rng, params, request},
};
use engine::{
    EngineConfig, EngineError, EngineEvent, FinishReason, NewRequest, OwnerId, RequestSummary,
    params::{GrammarSource, SamplingParams},
    testing::{Answer as Says, Call, END_OF_TURN, FakeRow, Script},
};
use text::TokenId;

const HISTORIES: u64 = 150;

fn bench(script: &Script) -> Bench {
    Bench::with_config(script.clone(), EngineConfig::new(thinking()))
}

/// What a request that has ended was told, the text that it came with put before; and what was measured.
fn told(answer: &mut Answer) -> (Transcript, RequestSummary) {
    let (_, summary) = answer.finished();
    let mut told = transcript(answer);
    let resumed = answer.events.iter().position(|event| matches!(event, EngineEvent::Resumed { .. }));
    if let Some(at) = resumed {
        assert_eq!(at, 0, "before everything else");
        let EngineEvent::Resumed { thinking, answer, .. } = &answer.events[0] else { unreachable!() };
        told.thinking.insert_str(0, thinking);
        told.answer.insert_str(0, answer);
    }
    (told, summary)
}

fn uncut(script: &Script, prompt: &str, params: &SamplingParams) -> (Transcript, RequestSummary) {
    let mut bench = bench(script);
    let mut answer = bench.submit(prompt, params.clone());
    bench.run();
    told(&mut answer)
}

fn bytes(text: &str) -> Vec<TokenId> {
    text.bytes().map(TokenId::from).collect()
}

/// Says `text` after a prompt of `prompt_tokens`, whatever part of it is given.
fn saying(text: &str, prompt_tokens: usize) -> Script {
    let text: Vec<u8> = text.into();
    let logits = move |row: &FakeRow| {
        let next = text.get(row.tokens.len() - prompt_tokens).map_or(END_OF_TURN, |byte| u32::from(*byte));
        (0..272).map(|id| if id == next { 20.0 } else { -20.0 }).collect()
    };
    Script { answer: Says::Custom(Arc::new(logits)), ..Script::default() }
}

#[test]
fn cut_anywhere_and_continued_is_never_cut() {
    let (mut cuts, mut in_grammar, mut in_thinking, mut penalised) = (0, 0, 0, 0);
    for seed in 0..HISTORIES {
        let mut rng = Rng::new(seed);
        let script = random_script(&mut rng);
        let params = random_params(&mut rng);
        let opening = if rng.below(2) == 0 { "<think>\n" } else { "" };
        let prompt = format!("{}{opening}", "QUESTION".repeat(1 + rng.below(6)));
        let (whole, measured) = uncut(&script, &prompt, &params);
        for cut in 0..=measured.tokens.len() {
            let mut bench = bench(&script);
            bench.engine.set_gate_mode(rng.pick(&MODES));
            let so_far = &measured.tokens[..cut];
            let neighbour = bench.submit("neighbour", random_params(&mut rng));
            let mut resumed = match bench.try_resume(&prompt, so_far, params.clone()) {
                Ok(resumed) => resumed,
                Err(error) => {
                    let EngineError::AnswerEnded { index, reason } = error else { panic!("{error:?}") };
                    assert_eq!(
                        (index, cut),
                        (cut - 1, measured.tokens.len()),
                        "seed {seed}: not before its end"
                    );
                    let is_cut_by_limit = cut == params.max_tokens as usize;
                    let is_same = whole.ending == format!("{reason:?}") || whole.ending == "Incomplete";
                    assert!(is_same || is_cut_by_limit, "seed {seed}: {reason:?} for {}", whole.ending);
                    continue;
                }
            };
            bench.run();
            drop(neighbour);
            let (rest, after) = told(&mut resumed);
            let what = format!("seed {seed} cut at {cut}: {params:?}");
            assert_eq!((&rest.answer, &rest.thinking), (&whole.answer, &whole.thinking), "{what}");
            assert_eq!(rest.ending, whole.ending, "{what}");
            assert_eq!(rest.tokens, whole.tokens[cut.min(whole.tokens.len())..], "{what}");
            assert_eq!(after.tokens, measured.tokens, "{what}");
            let counts = |of: &RequestSummary| (of.prompt_tokens, of.answer_tokens, of.thinking_tokens);
            assert_eq!(counts(&after), counts(&measured), "{what}");
            cuts += 1;
            in_grammar += u32::from(params.grammar.is_some() && measured.answer_tokens > 0);
            in_thinking += u32::from(cut < measured.thinking_tokens as usize);
            penalised += u32::from(params.repetition_penalty != 1.0 || params.frequency_penalty != 0.0);
        }
    }
    assert!(
        cuts > 1000 && in_grammar > 200 && in_thinking > 100 && penalised > 200,
        "{cuts} {in_grammar} {in_thinking} {penalised}"
    );
}

#[test]
fn tags_characters_and_stop_sequences_may_be_cut_in_two() {
    let prompt = "why?<think>\n";
    let says = "weil 日本 🌍 so ist\n</think>\n\n Das  ist né 👩‍👩‍👧 gut</s>und mehr";
    let script = saying(says, prompt.len());
    let stop = SamplingParams { stop: vec!["</s>".into()], max_tokens: 300, temperature: 0.0, ..params() };
    let (whole, measured) = uncut(&script, prompt, &stop);
    assert_eq!(
        (whole.thinking.as_str(), whole.answer.as_str()),
        ("weil 日本 🌍 so ist", "Das  ist né 👩‍👩‍👧 gut")
    );
    for cut in 1..measured.tokens.len() {
        // As a person's stop leaves it: the tokens of an answer that ended there.
        let mut bench = bench(&script);
        let limit = SamplingParams { max_tokens: cut as u32, ..stop.clone() };
        let mut short = bench.submit(prompt, limit);
        bench.run();
        let so_far = short.finished().1.tokens;
        let mut resumed = bench.try_resume(prompt, &so_far, stop.clone()).unwrap();
        bench.run();
        let (rest, after) = told(&mut resumed);
        assert_eq!(
            (rest.thinking, rest.answer),
            (whole.thinking.clone(), whole.answer.clone()),
            "cut at {cut}"
        );
        assert_eq!(rest.ending, "StopSequence");
        assert_eq!(after.tokens, measured.tokens);
        let EngineEvent::Resumed { thinking, answer, .. } = &resumed.events[0] else { panic!("{cut}") };
        let shown = transcript(&mut short);
        assert!(shown.thinking.starts_with(thinking) && shown.answer.starts_with(answer), "cut at {cut}");
    }
}

#[test]
fn a_grammar_that_forces_goes_on_within_a_forced_run() {
    let schema = r#"{"type":"object","properties":{"measurement":{"enum":["low","high"]}},"required":["measurement"],"additionalProperties":false}"#;
    let grammar = Some(GrammarSource::JsonSchema(schema.into()));
    let params = SamplingParams { grammar, logprobs: Some(0), max_tokens: 60, ..params() };
    let (whole, measured) = uncut(&Script::default(), "measure", &params);
    assert!(whole.tokens.iter().filter(|entry| entry.is_forced).count() > 10, "{whole:?}");
    for cut in 1..measured.tokens.len() {
        let mut bench = bench(&Script::default());
        let mut resumed = bench.try_resume("measure", &measured.tokens[..cut], params.clone()).unwrap();
        bench.run();
        let (rest, _) = told(&mut resumed);
        assert_eq!(rest.answer, whole.answer);
        assert_eq!(rest.tokens, whole.tokens[cut..], "what is forced stays so, cut at {cut}");
    }
}

#[test]
fn what_the_grammar_refuses_or_has_ended_is_refused_before_anything_starts() {
    let digits = |max_tokens| SamplingParams {
        grammar: Some(GrammarSource::Regex("[0-9]{3}".into())),
        max_tokens,
        ..params()
    };
    let stop = SamplingParams { stop: vec!["no".into()], ..params() };
    let mut bench = bench(&Script { context_tokens: 40, ..Script::default() });
    let mut refusal = |so_far: &[TokenId], params: SamplingParams| {
        let answer = bench.try_resume("question", so_far, params);
        let error = answer.err().expect("it cannot go on");
        assert!(bench.engine.is_idle() && bench.calls().is_empty());
        error
    };
    let ended = |error: EngineError| match error {
        EngineError::AnswerEnded { index, reason } => (index, reason),
        other => panic!("{other:?}"),
    };
    let EngineError::AnswerRefused { index, token } = refusal(&bytes("1x"), digits(9)) else {
        panic!("x is none")
    };
    assert_eq!((index, token), (1, u32::from(b'x')));
    let control = refusal(&[u32::from(b'1'), 257], digits(9));
    assert!(matches!(control, EngineError::AnswerRefused { index: 1, token: 257 }), "{control:?}");
    assert_eq!(ended(refusal(&bytes("123"), digits(9))), (2, FinishReason::EndOfTurn));
    assert_eq!(ended(refusal(&bytes("and now"), stop)), (5, FinishReason::StopSequence));
    assert_eq!(ended(refusal(&[97, END_OF_TURN], params())), (1, FinishReason::EndOfTurn));
    let short = SamplingParams { max_tokens: 3, ..params() };
    assert_eq!(ended(refusal(&bytes("abcd"), short)), (2, FinishReason::MaxTokens));
    let long = SamplingParams { max_tokens: 300, ..params() };
    assert_eq!(ended(refusal(&[97; 32], long.clone())), (31, FinishReason::ContextFull));
    let unknown = refusal(&[272], long);
    assert!(matches!(unknown, EngineError::UnknownToken { token: 272, .. }), "{unknown:?}");
}

#[test]
fn an_answer_begun_under_another_budget_is_taken_as_it_is() {
    let prompt = "why?<think>\n";
    let says = "abcdefghijklmnop\n</think>\n\nso";
    let script = saying(says, prompt.len());
    let plain = SamplingParams { max_tokens: 100, temperature: 0.0, ..params() };
    let (whole, measured) = uncut(&script, prompt, &plain);
    for cut in 1..=measured.tokens.len() {
        let mut bench = bench(&script);
        let budget = SamplingParams { thinking_budget: Some(4), ..plain.clone() };
        let mut resumed = bench.try_resume(prompt, &measured.tokens[..cut], budget).unwrap();
        bench.run();
        let (rest, after) = told(&mut resumed);
        assert_eq!(after.tokens[..cut], measured.tokens[..cut]);
        let thought = &whole.thinking[..cut.clamp(4, 16)];
        assert_eq!(rest.thinking, thought, "the closing follows at once, cut at {cut}");
        let is_closed = cut >= "abcdefghijklmnop\n</think>".len();
        assert!(!is_closed || rest.answer == "so", "cut at {cut}: {rest:?}");
    }
}

#[test]
fn the_prompt_and_the_answer_so_far_come_from_the_prefix_cache() {
    let script = Script { answer: Says::Hashed { eos_one_in: 0 }, ..Script::default() };
    let mut bench = Bench::new(script);
    let question: String = "QUESTION ".repeat(12);
    let long = SamplingParams { max_tokens: 80, ..params() };
    let mut first = bench.submit_turn(1, &question, SamplingParams { max_tokens: 50, ..params() });
    bench.run();
    let so_far = first.finished().1.tokens;
    let before = bench.tokens_read();
    let request = request(&question, long.clone().validate().unwrap(), &bench.clock);
    let request = NewRequest { answer_so_far: so_far, owner: Some(OwnerId(1)), ..request };
    let mut resumed = bench.try_request(request).unwrap();
    bench.run();
    let (_, summary) = resumed.finished();
    assert_eq!((bench.tokens_read() - before, summary.cached_tokens as usize), (0, question.len() + 50 - 1));
    assert_eq!((summary.prompt_tokens as usize, summary.answer_tokens), (question.len(), 80));
    let prompt_end =
        |call: &Call| matches!(call, Call::Restore(_, _, tokens) if *tokens == question.len() - 1);
    let mut again = bench.submit_turn(1, &question, params());
    bench.run();
    assert_eq!(again.finished().1.cached_tokens as usize, question.len() - 1);
    assert!(bench.calls().iter().any(prompt_end), "the end of the prompt is still kept");
}
