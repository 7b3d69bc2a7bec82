//! Rows with needs of their own beside plain ones.

use crate::support::{Bench, expected_text, params};
use engine::{
    EngineConfig, EngineError, EngineEvent, FinishReason, GateMode, OverlapMode, SamplingPath,
    event::TextPart,
    params::{GrammarSource, SamplingParams},
    testing::{Answer as Says, BadLogits, Script, thinking_tokenizer},
};

const MODES: [GateMode; 3] = [GateMode::Strict, GateMode::Split, GateMode::Folded];

fn endless() -> Script {
    Script { answer: Says::Hashed { eos_one_in: 0 }, max_rows: 4, ..Script::default() }
}

fn tokens(max_tokens: u32) -> SamplingParams {
    SamplingParams { max_tokens, ..params() }
}

fn digits(max_tokens: u32) -> SamplingParams {
    SamplingParams { grammar: Some(GrammarSource::Regex("[0-7]{12}".into())), ..tokens(max_tokens) }
}

fn thinking_of(answer: &mut crate::support::Answer) -> String {
    let thinking = |event: &EngineEvent| match event {
        EngineEvent::Text { part: TextPart::Thinking, delta, .. } => Some(delta.clone()),
        _ => None,
    };
    answer.read().events.iter().filter_map(thinking).collect()
}

#[test]
fn a_thinking_budget_holds_while_others_leave_and_join() {
    for mode in MODES {
        let mut bench = Bench::with_config(endless(), EngineConfig::new(thinking_tokenizer().unwrap()));
        bench.engine.set_gate_mode(mode);
        let biased = SamplingParams { logit_bias: vec![(u32::from(b'z'), 50.0)], ..tokens(900) };
        let leaves = bench.submit("a", biased);
        let mut plain = bench.submit("b", tokens(500));
        let budget = SamplingParams { thinking_budget: Some(300), ..tokens(400) };
        let mut thinks = bench.submit("c<think>\n", budget);
        bench.steps(50);
        bench.engine.cancel(leaves.id);
        bench.steps(1);
        let mut joins = bench.submit("d", tokens(300));
        bench.run();
        let thought = thinking_of(&mut thinks);
        assert_eq!(thought.trim_end().len(), 300, "{mode:?}: not a token of it was lost or added");
        assert_eq!(thinks.finished().0, FinishReason::MaxTokens);
        assert_eq!(joins.read().text, expected_text(&endless(), "d", &tokens(300)), "without the bias of a");
        assert_eq!(plain.read().text, expected_text(&endless(), "b", &tokens(500)));
    }
}

#[test]
fn a_structured_row_that_finishes_leaves_the_others_plainly_fused() {
    for mode in MODES {
        let mut bench = Bench::new(endless());
        bench.engine.set_gate_mode(mode);
        let mut plain: Vec<_> = ["a", "b", "c"].map(|prompt| bench.submit(prompt, tokens(60))).into();
        let mut structured = bench.submit("j", digits(60));
        while structured.endings() == 0 {
            bench.steps(1);
        }
        assert_eq!(structured.text.len(), 12);
        let before = bench.engine.counters();
        bench.steps(1);
        assert_eq!(bench.engine.counters().since(before).waits, 1, "{mode:?}");
        assert_eq!((bench.stats().batch_rows, bench.stats().batch_reasons.len()), (3, 0));
        for answer in &mut plain {
            let path = answer.paths().pop().expect("there were steps");
            assert_eq!((path.path, path.reasons, path.caused_by), (SamplingPath::Fused, vec![], None));
        }
        assert_eq!(bench.stats().unplanned_waits, 0);
    }
}

#[test]
fn a_mask_moves_with_its_row_and_touches_no_other() {
    for overlap in [OverlapMode::Off, OverlapMode::On] {
        let mut bench = Bench::new(endless());
        bench.engine.set_gate_mode(GateMode::Folded);
        bench.engine.set_overlap(overlap);
        let leaves = bench.submit("a", tokens(90));
        let mut before = bench.submit("b", tokens(30));
        let mut masked = bench.submit("m", digits(30));
        let mut after = bench.submit("c", tokens(30));
        bench.steps(5);
        bench.engine.cancel(leaves.id);
        bench.run();
        assert!(masked.read().text.bytes().all(|byte| (b'0'..=b'7').contains(&byte)), "{}", masked.text);
        assert_eq!(masked.text.len(), 12);
        assert_eq!(before.read().text, expected_text(&endless(), "b", &tokens(30)));
        assert_eq!(after.read().text, expected_text(&endless(), "c", &tokens(30)));
    }
}

#[test]
fn the_others_get_their_token_in_the_step_in_which_a_row_fails() {
    let bad = BadLogits { first_token: u32::from(b'!'), after_tokens: 4, logit: f32::NAN };
    for (mode, overlap) in MODES.iter().flat_map(|mode| [(*mode, OverlapMode::Off), (*mode, OverlapMode::On)])
    {
        let mut bench = Bench::new(Script { bad_logits: Some(bad), ..endless() });
        bench.engine.set_gate_mode(mode);
        bench.engine.set_overlap(overlap);
        let mut answers = ["a", "b", "!", "d"].map(|prompt| bench.submit(prompt, tokens(30)));
        bench.steps(4);
        let lengths = answers.each_mut().map(|answer| answer.read().text.len());
        assert_eq!(lengths, [4; 4]);
        bench.steps(1);
        assert!(matches!(answers[2].failed(), EngineError::NonFiniteLogits));
        let lengths = answers.each_mut().map(|answer| answer.read().text.len());
        assert_eq!(lengths, [5, 5, 4, 5], "{mode:?}, {overlap:?}");
        bench.run();
        for (answer, prompt) in
            answers.iter_mut().zip(["a", "b", "!", "d"]).filter(|(_, prompt)| *prompt != "!")
        {
            assert_eq!(answer.read().text, expected_text(&endless(), prompt, &tokens(30)));
        }
    }
}
