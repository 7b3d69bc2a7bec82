//! How a checkpoint spells the names of its decoder's tensors.

/// Where the files keep the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// `model.layers.0…` and `lm_head…`: a checkpoint of the decoder alone.
    Plain,
    /// A prefix before every name: `language_model.model.layers.0…` and `language_model.lm_head…`.
    Before(&'static str),
    /// A prefix within the names of the decoder's body: `model.language_model.layers.0…`, but `lm_head…`.
    Within(&'static str),
}

const BODY: &str = "model.";

impl Spelling {
    /// The spelling of files with these tensors, of those with `prefix` and without.
    pub fn of<'n>(names: impl Iterator<Item = &'n str> + Clone, prefix: &'static str) -> Spelling {
        let is_any = |start: &str| names.clone().any(|name| name.starts_with(start));
        if prefix.is_empty() {
            Spelling::Plain
        } else if is_any(&format!("{prefix}{BODY}")) {
            Spelling::Before(prefix)
        } else if is_any(&format!("{BODY}{prefix}")) {
            Spelling::Within(prefix)
        } else {
            Spelling::Plain
        }
    }

    /// The name in the files of what a plain checkpoint calls `name`.
    pub fn in_files(self, name: &str) -> String {
        match (self, name.strip_prefix(BODY)) {
            (Spelling::Plain, _) | (Spelling::Within(_), None) => name.to_owned(),
            (Spelling::Before(prefix), _) => format!("{prefix}{name}"),
            (Spelling::Within(prefix), Some(rest)) => format!("{BODY}{prefix}{rest}"),
        }
    }
}

/// Whether a tensor belongs to one of the parts that are left out, as plain and as `model.`'s.
pub fn is_skipped(name: &str, parts: &[&str]) -> bool {
    let inner = name.strip_prefix(BODY).unwrap_or(name);
    parts.iter().any(|part| name.starts_with(part) || inner.starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_spellings_are_told_apart_and_written_back() {
        for (names, body, head) in [
            (["model.layers.0.x", "lm_head.weight"], "model.norm.weight", "lm_head.weight"),
            (
                ["language_model.model.layers.0.x", "language_model.lm_head.weight"],
                "language_model.model.norm.weight",
                "language_model.lm_head.weight",
            ),
            (
                ["model.language_model.layers.0.x", "lm_head.weight"],
                "model.language_model.norm.weight",
                "lm_head.weight",
            ),
        ] {
            let spelling = Spelling::of(names.into_iter(), "language_model.");
            assert_eq!(spelling.in_files("model.norm.weight"), body);
            assert_eq!(spelling.in_files("lm_head.weight"), head);
        }
    }

    #[test]
    fn parts_are_skipped_by_whole_names_only() {
        let parts = ["vision_tower.", "multi_modal_projector."];
        assert!(is_skipped("vision_tower.patch.weight", &parts));
        assert!(is_skipped("model.multi_modal_projector.weight", &parts));
        assert!(!is_skipped("model.layers.0.vision_tower.weight", &parts));
        assert!(!is_skipped("vision_towers.weight", &parts));
    }
}
