use crate::fuzzing::{Corpus, Target, run};

/// A short run of what the example does for long.
#[test]
fn damaged_tokenizers_and_templates_end_in_errors() {
    let corpus = Corpus::read();
    let place = tempfile::tempdir().unwrap();
    for (target, cases) in [(Target::Tokenizer, 60), (Target::Template, 150)] {
        let mut accepted = 0;
        for seed in 0..cases {
            match run(target, &corpus, seed, place.path()) {
                Ok(outcome) => accepted += u64::from(outcome.is_accepted),
                Err(finding) => panic!("{target:?}, seed {seed}: {}", finding.what),
            }
        }
        assert!(accepted > 0 && accepted < cases, "{target:?}: {accepted} of {cases} accepted shows nothing");
    }
}
