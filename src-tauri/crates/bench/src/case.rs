//! What is compared with what: settings of the rows, and who runs them how.

use anyhow::{Result, bail};
use engine::{GateMode, OverlapMode};

/// Most rows a batch can hold here.
pub const MAX_ROWS: usize = 16;

/// Sampling settings of a case's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Temperature 0.
    Greedy,
    /// Temperature 0.7, top-p 0.9.
    TopP,
    /// As [`Sampling::TopP`], and the first row's answer must match a JSON Schema.
    JsonRow,
}

impl Sampling {
    /// Name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Sampling::Greedy => "greedy",
            Sampling::TopP => "T 0.7, top-p 0.9",
            Sampling::JsonRow => "one JSON row",
        }
    }

    /// Temperature and top-p.
    pub fn values(self) -> (f32, f32) {
        match self {
            Sampling::Greedy => (0.0, 1.0),
            Sampling::TopP | Sampling::JsonRow => (0.7, 0.9),
        }
    }

    /// Whether a grammar restricts row `row`.
    pub fn has_grammar(self, row: usize) -> bool {
        self == Sampling::JsonRow && row == 0
    }
}

/// One cell of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Rows that decode together.
    pub batch: usize,
    /// Their settings.
    pub sampling: Sampling,
    /// Alternatives that every row reports per token; `None` reports no logprobs.
    pub logprobs: Option<u8>,
}

/// Who runs a case, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// Every row in a graph of its own with its own wait, whatever it asks for. Nothing can overlap there.
    Strict,
    /// Rows that ask for something special go per row.
    Split(OverlapMode),
    /// Rows that ask for something special stay in the fused graph.
    Folded(OverlapMode),
    /// mlx-lm's BatchGenerator.
    MlxLm,
}

const NAMES: [(&str, Arm); 8] = [
    ("strict", Arm::Strict),
    ("split", Arm::Split(OverlapMode::Off)),
    ("split+overlap", Arm::Split(OverlapMode::On)),
    ("split+adaptive", Arm::Split(OverlapMode::Adaptive)),
    ("folded", Arm::Folded(OverlapMode::Off)),
    ("folded+overlap", Arm::Folded(OverlapMode::On)),
    ("folded+adaptive", Arm::Folded(OverlapMode::Adaptive)),
    ("mlx-lm", Arm::MlxLm),
];

impl Arm {
    /// Name in tables, in files and in `--arms`.
    pub fn name(self) -> &'static str {
        let named = NAMES.iter().find(|(_, arm)| *arm == self);
        named.expect("every arm has a name").0
    }

    /// The arm called `name`.
    ///
    /// # Errors
    /// Says which names there are.
    pub fn parse(name: &str) -> Result<Arm> {
        let Some((_, arm)) = NAMES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            bail!("no arm is called {name:?}; there are {}", known.join(", "));
        };
        Ok(*arm)
    }

    /// Mode of the gate and overlap; `None` for an arm that is not Braid.
    pub fn modes(self) -> Option<(GateMode, OverlapMode)> {
        match self {
            Arm::Strict => Some((GateMode::Strict, OverlapMode::Off)),
            Arm::Split(overlap) => Some((GateMode::Split, overlap)),
            Arm::Folded(overlap) => Some((GateMode::Folded, overlap)),
            Arm::MlxLm => None,
        }
    }

    /// Whether it can run `case`: mlx-lm knows no grammars and has no logprobs of Braid's kind.
    pub fn can_run(self, case: Case) -> bool {
        self != Arm::MlxLm || (case.sampling != Sampling::JsonRow && case.logprobs.is_none())
    }

    /// Whether row `row` of `case` is in the fused graph.
    pub fn is_fused(self, case: Case, row: usize) -> bool {
        match self {
            Arm::Strict => false,
            Arm::Split(_) => !case.sampling.has_grammar(row) && case.logprobs.is_none(),
            Arm::Folded(_) | Arm::MlxLm => true,
        }
    }

    /// Whether forward passes are never submitted ahead.
    pub fn is_synchronous(self) -> bool {
        self.modes().is_some_and(|(_, overlap)| overlap == OverlapMode::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_the_name_of_its_arm() {
        for (name, arm) in NAMES {
            assert_eq!(Arm::parse(name).ok(), Some(arm));
            assert_eq!(arm.name(), name);
        }
        assert!(Arm::parse("fused").is_err());
    }

    #[test]
    fn split_sends_only_rows_in_need_per_row() {
        let case = Case { batch: 2, sampling: Sampling::JsonRow, logprobs: None };
        let split = Arm::Split(OverlapMode::Off);
        assert_eq!([split.is_fused(case, 0), split.is_fused(case, 1)], [false, true]);
        assert!(!split.is_fused(Case { logprobs: Some(0), ..case }, 1));
        assert!(Arm::Folded(OverlapMode::Off).is_fused(case, 0));
        assert!(!Arm::Strict.is_fused(case, 1));
    }
}
