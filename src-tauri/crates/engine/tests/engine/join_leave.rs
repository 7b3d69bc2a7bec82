use crate::support::{Bench, params};
use engine::{FinishReason, testing::Script};

#[test]
fn four_rows_share_steps_and_finish() {
    let mut bench = Bench::new(Script::default());
    let mut answers: Vec<_> = ["one", "two", "three", "four"].map(|p| bench.submit(p, params())).into();
    bench.run();
    for answer in &mut answers {
        let (reason, summary) = answer.finished();
        assert!(matches!(reason, FinishReason::EndOfTurn | FinishReason::MaxTokens));
        assert_eq!(answer.text.len(), summary.answer_tokens as usize);
        assert!(summary.fused_steps > 0);
    }
}
