//! A row fails alone; the backend fails for its batch only.

use crate::support::{Bench, expected_text, params};
use engine::{
    EngineError, EnginePhase, OverlapMode, Reason, SamplingPath,
    params::SamplingParams,
    testing::{Answer, BadLogits, Call, FaultAt, Scenario, Script},
};
use std::time::Duration;

fn endless() -> Script {
    Script { answer: Answer::Hashed { eos_one_in: 0 }, ..Script::default() }
}

fn bad_row(logit: f32) -> Script {
    Script { bad_logits: Some(BadLogits { first_token: b'!'.into(), after_tokens: 3, logit }), ..endless() }
}

#[test]
fn a_row_without_usable_logits_ends_alone() {
    for (logit, is_finite_problem) in [(f32::NAN, true), (f32::INFINITY, true), (f32::NEG_INFINITY, false)] {
        let mut bench = Bench::new(bad_row(logit));
        let prompts = ["one", "two", "!bad", "four"];
        let mut answers: Vec<_> = prompts.map(|prompt| bench.submit(prompt, params())).into();
        bench.run();
        for (answer, prompt) in answers.iter_mut().zip(prompts) {
            assert_eq!(answer.endings(), 1);
            let expected = expected_text(&endless(), prompt, &params());
            if prompt == "!bad" {
                let error = answer.failed();
                match is_finite_problem {
                    true => assert!(matches!(error, EngineError::NonFiniteLogits), "{error}"),
                    false => assert!(matches!(error, EngineError::NothingAllowed), "{error}"),
                }
                assert_eq!(answer.text, expected[..3], "what was said stays");
            } else {
                answer.finished();
                assert_eq!(answer.text, expected, "as in a run without the bad row");
            }
        }
    }
}

#[test]
fn a_bad_row_that_is_alone_is_no_fault_of_the_engine() {
    let mut bench = Bench::new(Scenario::NanRow);
    for _ in 0..5 {
        let mut answer = bench.submit("!", params());
        bench.run();
        assert!(matches!(answer.failed(), EngineError::NonFiniteLogits));
    }
}

#[test]
fn a_batch_of_bad_rows_is_a_fault_of_the_engine() {
    let mut bench = Bench::new(bad_row(f32::NAN));
    let mut answers: Vec<_> = ["!", "!"].map(|prompt| bench.submit(prompt, params())).into();
    bench.run();
    for answer in &mut answers {
        assert!(matches!(answer.failed(), EngineError::AllRowsBad { rows: 2 }));
    }
}

#[test]
fn an_unreadable_prompt_fails_alone() {
    let mut bench = Bench::new(Script { unreadable: Some(b'?'.into()), ..endless() });
    let mut answers: Vec<_> = ["fine", "?broken", "good"].map(|prompt| bench.submit(prompt, params())).into();
    bench.run();
    assert!(matches!(answers[1].failed(), EngineError::Prefill(_)));
    assert_eq!(bench.engine.backend().private_rows(), 0);
    assert_eq!(answers[0].read().text, expected_text(&endless(), "fine", &params()));
    assert_eq!(answers[2].read().text, expected_text(&endless(), "good", &params()));
}

#[test]
fn a_fault_ends_the_batch_and_spares_the_queue() {
    for fault in [FaultAt::Forward(4), FaultAt::Sample(4), FaultAt::Read(4)] {
        let mut bench = Bench::new(Script { faults: vec![fault], max_rows: 2, ..endless() });
        let mut active = [bench.submit("a", params()), bench.submit("b", params())];
        let mut queued = bench.submit("queued", params());
        bench.run();
        for answer in &mut active {
            assert!(matches!(answer.failed(), EngineError::Backend(_)), "{fault:?}");
            assert_eq!(answer.endings(), 1);
            assert!(!answer.text.is_empty(), "what was said before stays");
        }
        queued.finished();
        assert_eq!(queued.text, expected_text(&endless(), "queued", &params()));
        let mut next = bench.submit("next", params());
        bench.run();
        next.finished();
        assert_eq!(next.text, expected_text(&endless(), "next", &params()), "the engine goes on");
    }
}

#[test]
fn a_fault_while_rows_leave_spares_the_row_that_has_finished() {
    let mut bench = Bench::new(Script { faults: vec![FaultAt::KeepRows(1)], ..endless() });
    let mut finished = bench.submit("a", SamplingParams { max_tokens: 2, ..params() });
    let mut survivor = bench.submit("b", params());
    bench.run();
    finished.finished();
    assert!(matches!(survivor.failed(), EngineError::Backend(_)));
}

#[test]
fn a_prompt_being_read_during_a_fault_is_read_again() {
    let script = Script {
        faults: vec![FaultAt::Forward(6)],
        prefill_per_token: Duration::from_millis(1),
        step: Duration::from_millis(20),
        ..endless()
    };
    let mut bench = Bench::new(script);
    let mut active = bench.submit("a", SamplingParams { max_tokens: 900, ..params() });
    bench.steps(2);
    let prompt = "long prompt ".repeat(40);
    let mut reading = bench.submit(&prompt, params());
    bench.run();
    assert!(matches!(active.failed(), EngineError::Backend(_)));
    reading.finished();
    assert_eq!(reading.text, expected_text(&endless(), &prompt, &params()));
}

#[test]
fn three_faults_within_a_minute_end_the_engine_and_slower_ones_do_not() {
    let script = Script { faults: (1..=5).map(FaultAt::Forward).collect(), ..endless() };
    let mut bench = Bench::new(script);
    let mut outcomes = Vec::new();
    for pause_s in [0, 61, 1, 1] {
        bench.clock.advance(Duration::from_secs(pause_s));
        let mut answer = bench.submit("p", params());
        outcomes.push(loop {
            if let Err(error) = bench.engine.step() {
                break Err(error);
            }
            if bench.engine.is_idle() {
                break Ok(());
            }
        });
        assert!(matches!(answer.failed(), EngineError::Backend(_)));
    }
    assert!(outcomes[..3].iter().all(Result::is_ok), "the first fault was a minute earlier");
    assert!(matches!(outcomes[3], Err(EngineError::RepeatedFaults { faults: 3, .. })));
}

#[test]
fn requests_that_cannot_be_served_are_refused_with_the_numbers() {
    let mut bench = Bench::new(Script { context_tokens: 8, ..endless() });
    let mut refuse = |prompt: &str| {
        let request = crate::support::request(prompt, params().validate().unwrap(), &bench.clock);
        bench.engine.submit(request).unwrap_err()
    };
    assert!(matches!(refuse(""), EngineError::EmptyPrompt));
    assert!(matches!(refuse("eight!!!"), EngineError::PromptTooLong { prompt_tokens: 8, context_tokens: 8 }));
    let mut request = crate::support::request("seven!!", params().validate().unwrap(), &bench.clock);
    request.prompt[3] = 272;
    let error = bench.engine.submit(request).unwrap_err();
    assert!(matches!(error, EngineError::UnknownToken { token: 272, vocab_width: 272 }));
}

#[test]
fn a_device_error_with_a_forward_in_flight_is_survived() {
    let mut bench = Bench::new(Script { faults: vec![FaultAt::Read(5)], max_rows: 2, ..endless() });
    bench.engine.set_overlap(OverlapMode::On);
    let mut active = [bench.submit("a", params()), bench.submit("b", params())];
    let mut queued = bench.submit("queued", params());
    bench.steps(4);
    assert!(bench.engine.backend().is_ahead());
    bench.steps(1);
    for answer in &mut active {
        assert!(matches!(answer.failed(), EngineError::Backend(_)));
        assert_eq!(answer.endings(), 1);
    }
    let log = bench.engine.backend().log();
    assert_eq!(log.lock().unwrap().last().unwrap().call, Call::Reset, "in the same step");
    bench.run();
    queued.finished();
    assert_eq!(queued.text, expected_text(&endless(), "queued", &params()));
}

#[test]
fn rows_after_a_fault_go_per_row_until_a_step_has_succeeded() {
    let mut bench = Bench::new(Script { faults: vec![FaultAt::Forward(3)], max_rows: 1, ..endless() });
    let mut failing = bench.submit("a", params());
    let mut next = bench.submit("b", params());
    bench.run();
    failing.failed();
    let (_, summary) = next.finished();
    assert_eq!((summary.per_row_steps, summary.fused_steps), (1, 15));
}

#[test]
fn a_step_after_a_fault_says_why_it_is_not_fused() {
    let mut bench = Bench::new(Script { faults: vec![FaultAt::Forward(3)], max_rows: 1, ..endless() });
    let _failing = bench.submit("a", params());
    let mut next = bench.submit("b", params());
    while bench.stats().batch_reasons.last() != Some(&Reason::RepeatedEvalFailure) {
        bench.steps(1);
    }
    let path = next.paths().pop().expect("a step has run");
    assert_eq!((path.path, path.reasons), (SamplingPath::PerRow, vec![Reason::RepeatedEvalFailure]));
    bench.steps(1);
    let path = next.paths().pop().expect("it changed");
    assert_eq!((path.path, path.reasons), (SamplingPath::Fused, vec![]));
}

#[test]
fn a_lack_of_memory_halves_the_rows() {
    let mut bench = Bench::new(Script { faults: vec![FaultAt::OutOfMemory(6)], ..endless() });
    let mut active: Vec<_> = (0..6).map(|i| bench.submit(&format!("{i}"), params())).collect();
    bench.steps(2);
    assert_eq!(bench.engine.snapshot(EnginePhase::Ready).allowed_rows, 8);
    bench.run();
    active.iter_mut().for_each(|answer| assert!(matches!(answer.failed(), EngineError::Backend(_))));
    assert_eq!(bench.engine.snapshot(EnginePhase::Ready).allowed_rows, 3);
    let mut later: Vec<_> = (0..6).map(|i| bench.submit(&format!("{i}"), params())).collect();
    let mut most_rows = 0;
    while !bench.engine.is_idle() {
        bench.steps(1);
        most_rows = most_rows.max(bench.engine.backend().batch().len());
    }
    assert_eq!(most_rows, 3);
    for (i, answer) in later.iter_mut().enumerate() {
        assert_eq!(
            answer.read().text,
            expected_text(&endless(), &i.to_string(), &params()),
            "all are answered"
        );
    }
}

#[test]
fn another_fault_leaves_the_number_of_rows_alone() {
    let mut bench = Bench::new(Script { faults: vec![FaultAt::Forward(3)], ..endless() });
    let _active = [bench.submit("a", params()), bench.submit("b", params())];
    bench.run();
    assert_eq!(bench.engine.snapshot(EnginePhase::Ready).allowed_rows, 8);
}

#[test]
fn a_backend_that_cannot_be_rebuilt_ends_the_engine() {
    let faults = vec![FaultAt::Forward(3), FaultAt::Reset];
    let mut bench = Bench::new(Script { faults, ..endless() });
    let mut answer = bench.submit("a", params());
    let error = loop {
        if let Err(error) = bench.engine.step() {
            break error;
        }
    };
    assert!(matches!(error, EngineError::Backend(_)), "{error}");
    assert_eq!(answer.endings(), 1);
}
