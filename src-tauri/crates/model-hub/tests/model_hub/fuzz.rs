use crate::fuzzing::{Target, run};

/// A short run of what the example `fuzz` does for long.
#[test]
fn mutated_files_of_every_format_end_in_a_sound_result() {
    for target in Target::ALL {
        let place = tempfile::tempdir().unwrap();
        // Every import that is accepted waits for the disk.
        let cases = if target == Target::Gguf { 150 } else { 300 };
        let mut accepted = 0;
        for seed in 0..cases {
            match run(target, seed, place.path()) {
                Ok(outcome) => accepted += u64::from(outcome.is_accepted),
                Err((finding, input)) => {
                    panic!("{} of seed {seed} {finding}: {}", target.name(), input.escape_ascii());
                }
            }
        }
        let name = target.name();
        assert!(
            (20..580).contains(&accepted),
            "{accepted} of 600 accepted: {name} mutates too much or too little"
        );
    }
}
