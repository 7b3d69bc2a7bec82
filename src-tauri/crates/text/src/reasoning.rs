use serde::Serialize;

/// A way that models are trained to set their thinking apart.
struct Known {
    open: &'static str,
    close: &'static str,
    direct: Option<&'static str>,
    /// What a chat template writes or looks for if its model thinks like this.
    sign: &'static str,
}

const fn pair(open: &'static str, close: &'static str) -> Known {
    Known { open, close, direct: None, sign: close }
}

/// Each names its own end, so text cannot hold one by chance.
const KNOWN: [Known; 10] = [
    // Before the plain tags: templates of channels may quote those.
    Known {
        open: "<|channel|>analysis<|message|>",
        close: "<|end|><|start|>assistant<|channel|>final<|message|>",
        direct: Some("<|channel|>final<|message|>"),
        sign: "<|channel|>analysis<|message|>",
    },
    pair("<|channel>thought", "<channel|>"),
    pair("<think>", "</think>"),
    pair("<thinking>", "</thinking>"),
    pair("[THINK]", "[/THINK]"),
    pair("<seed:think>", "</seed:think>"),
    pair("◁think▷", "◁/think▷"),
    pair("<|START_THINKING|>", "<|END_THINKING|>"),
    pair("<|begin_of_thought|>", "<|end_of_thought|>"),
    pair("<reasoning>", "</reasoning>"),
];

/// The tags between which a model thinks before it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThinkingTags {
    /// Starts the thinking.
    pub open: String,
    /// Ends it.
    pub close: String,
    /// Starts an answer without thinking, if such an answer has a mark of its own.
    pub direct: Option<String>,
}

impl ThinkingTags {
    /// Builds a pair of tags.
    pub fn new(open: impl Into<String>, close: impl Into<String>) -> Self {
        Self { open: open.into(), close: close.into(), direct: None }
    }

    /// What models write between such a tag and the text beside it: a line break around words, nothing around the marks
    /// of channels and brackets.
    pub(crate) fn gap(&self) -> &'static str {
        if self.open.starts_with("<|") || self.open.starts_with('[') { "" } else { "\n" }
    }

    /// Finds the tags that a chat template writes or looks for, else the pair that the vocabulary holds.
    ///
    /// Templates that cut the thinking out of earlier answers name the closing tag only.
    pub(crate) fn find(template: Option<&str>, is_token: impl Fn(&str) -> bool) -> Option<Self> {
        let in_template = |known: &&Known| template.is_some_and(|source| source.contains(known.sign));
        let in_vocabulary = |known: &&Known| is_token(known.open) && is_token(known.close);
        let found = KNOWN.iter().find(in_template).or_else(|| KNOWN.iter().find(in_vocabulary));
        found.map(|known| Self { direct: known.direct.map(Into::into), ..Self::new(known.open, known.close) })
    }

    /// What a prompt says about the thinking of the answer that follows it: `prompt_end` is its text, or enough of
    /// the end of it. White space after a tag does not count.
    pub fn stage_after(&self, prompt_end: &str) -> ThinkingStage {
        match prompt_end.trim_end() {
            end if end.ends_with(&self.open) => ThinkingStage::Open,
            end if end.ends_with(&self.close) => ThinkingStage::Closed,
            _ => ThinkingStage::Outside,
        }
    }
}

/// How far an answer's thinking has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingStage {
    /// Nothing but white space, or part of the opening tag, so far.
    Outside,
    /// After the opening tag.
    Open,
    /// After the closing tag, or the answer began without thinking.
    Closed,
}

/// Text of an answer, thinking first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SplitText {
    /// Added to the thinking.
    pub thinking: String,
    /// Added to the answer.
    pub answer: String,
}

/// Splits streamed text into thinking and answer, wherever the pieces are cut.
///
/// The opening tag counts only at the start of an answer, the first closing tag after it ends the thinking; later
/// tags are text. Tags, and white space between a tag and the text on either side of it, belong to neither part. Holds
/// back what could still be a tag or such white space.
#[derive(Debug, Clone)]
pub struct ThinkingSplitter {
    tags: Option<ThinkingTags>,
    stage: ThinkingStage,
    /// Whether white space at the start of `held` belongs to a tag before it.
    is_after_tag: bool,
    held: String,
}

impl ThinkingSplitter {
    /// Starts an answer at `stage`. Without tags everything is answer.
    pub fn new(tags: Option<ThinkingTags>, stage: ThinkingStage) -> Self {
        let stage = if tags.is_some() { stage } else { ThinkingStage::Closed };
        Self { tags, stage, is_after_tag: stage == ThinkingStage::Open, held: String::new() }
    }

    /// Where the text is.
    pub fn stage(&self) -> ThinkingStage {
        self.stage
    }

    /// Whether the text so far ends within what may be the closing tag.
    pub fn is_within_close(&self) -> bool {
        let close = self.tags.as_ref().map_or("", |tags| tags.close.as_str());
        self.stage == ThinkingStage::Open && tag_start(&self.held, close) < self.held.len()
    }

    /// Takes the next piece of text and returns what is certain.
    pub fn push(&mut self, text: &str) -> SplitText {
        self.held.push_str(text);
        let mut split = SplitText::default();
        if self.stage == ThinkingStage::Outside {
            self.look_for_start();
        }
        if self.stage == ThinkingStage::Open {
            split.thinking = self.take_thinking();
        }
        if self.stage == ThinkingStage::Closed {
            split.answer = self.take_rest();
        }
        split
    }

    /// Ends the thinking here, as if the closing tag had come, and returns what was held back of it.
    pub fn close(&mut self) -> SplitText {
        let rest = self.finish();
        if self.stage != ThinkingStage::Closed {
            self.stage = ThinkingStage::Closed;
            self.is_after_tag = true;
        }
        rest
    }

    /// Ends the text and returns what was held back.
    pub fn finish(&mut self) -> SplitText {
        let rest = std::mem::take(&mut self.held);
        match self.stage {
            ThinkingStage::Open => {
                let thinking = self.without_leading_space(rest.trim_end().to_string());
                SplitText { thinking, ..SplitText::default() }
            }
            ThinkingStage::Outside => SplitText { answer: rest, ..SplitText::default() },
            ThinkingStage::Closed => SplitText::default(),
        }
    }

    fn look_for_start(&mut self) {
        let Some(tags) = &self.tags else { return };
        let text = self.held.trim_start();
        if let Some(after) = text.strip_prefix(&tags.open) {
            self.held = after.to_string();
            self.stage = ThinkingStage::Open;
            self.is_after_tag = true;
        } else if let Some(after) = tags.direct.as_ref().and_then(|mark| text.strip_prefix(mark.as_str())) {
            self.held = after.to_string();
            self.stage = ThinkingStage::Closed;
            self.is_after_tag = true;
        } else if ![Some(&tags.open), tags.direct.as_ref()]
            .into_iter()
            .flatten()
            .any(|tag| tag.starts_with(text))
        {
            self.stage = ThinkingStage::Closed;
        }
    }

    fn take_thinking(&mut self) -> String {
        let Some(tags) = &self.tags else { return String::new() };
        if let Some(at) = self.held.find(&tags.close) {
            let after = self.held[at + tags.close.len()..].to_string();
            let before = std::mem::replace(&mut self.held, after);
            let thinking = self.without_leading_space(before[..at].trim_end().to_string());
            self.stage = ThinkingStage::Closed;
            self.is_after_tag = true;
            return thinking;
        }
        let certain = self.held[..tag_start(&self.held, &tags.close)].trim_end().len();
        let rest = self.held.split_off(certain);
        let text = std::mem::replace(&mut self.held, rest);
        self.without_leading_space(text)
    }

    fn take_rest(&mut self) -> String {
        let text = std::mem::take(&mut self.held);
        self.without_leading_space(text)
    }

    fn without_leading_space(&mut self, text: String) -> String {
        if !self.is_after_tag {
            return text;
        }
        let text = text.trim_start();
        self.is_after_tag = text.is_empty();
        text.to_string()
    }
}

/// Where the longest end of `text` that could begin `tag` starts; its length if there is none.
fn tag_start(text: &str, tag: &str) -> usize {
    let starts = text.char_indices().map(|(at, _)| at).rev().take_while(|at| text.len() - at < tag.len());
    starts.filter(|at| tag.starts_with(&text[*at..])).last().unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn think() -> ThinkingTags {
        ThinkingTags::new("<think>", "</think>")
    }

    fn split(stage: ThinkingStage, pieces: &[&str]) -> (String, String) {
        let mut splitter = ThinkingSplitter::new(Some(think()), stage);
        let mut whole = SplitText::default();
        for part in pieces.iter().map(|piece| splitter.push(piece)).collect::<Vec<_>>() {
            assert!(part.thinking.is_empty() || whole.answer.is_empty(), "thinking comes first");
            whole.thinking.push_str(&part.thinking);
            whole.answer.push_str(&part.answer);
        }
        let rest = splitter.finish();
        (whole.thinking + &rest.thinking, whole.answer + &rest.answer)
    }

    #[test]
    fn any_cut_of_the_text_gives_the_same_parts() {
        use ThinkingStage::{Closed, Open, Outside};
        let cases = [
            (
                Outside,
                "<think>\nso 日本 it is\n</think>\n\nHello </think> you",
                "so 日本 it is",
                "Hello </think> you",
            ),
            (Outside, "\n<think></think>x", "", "x"),
            (Outside, " <thin ice", "", " <thin ice"),
            (Outside, "A <think>b</think>", "", "A <think>b</think>"),
            (Open, "a </th> b\n</think>\n", "a </th> b", ""),
            (Open, "never ends </thi", "never ends </thi", ""),
            (Closed, "\n<think>b</think>", "", "\n<think>b</think>"),
        ];
        for (stage, text, thinking, answer) in cases {
            let expected = (thinking.to_string(), answer.to_string());
            let cuts: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
            for (i, a) in cuts.iter().enumerate() {
                for b in &cuts[i..] {
                    let pieces = [&text[..*a], &text[*a..*b], &text[*b..]];
                    assert_eq!(split(stage, &pieces), expected, "{stage:?} {pieces:?}");
                }
            }
            let chars: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            assert_eq!(split(stage, &chars), expected, "one character at a time: {text}");
        }
    }

    #[test]
    fn the_prompts_end_tells_whether_the_template_opened_the_thinking() {
        assert_eq!(think().stage_after("<|assistant|>\n<think>\n"), ThinkingStage::Open);
        assert_eq!(think().stage_after("<think>\n\n</think>\n\n"), ThinkingStage::Closed);
        assert_eq!(think().stage_after("what does <think> mean?<|assistant|>\n"), ThinkingStage::Outside);
    }

    #[test]
    fn tags_come_from_the_template_before_the_vocabulary() {
        let none = |_: &str| false;
        let cut = "{{ content.split('[/THINK]')[-1] }}";
        let open = |tags: Option<ThinkingTags>| tags.map(|tags| tags.open);
        assert_eq!(open(ThinkingTags::find(Some(cut), |tag| tag.contains("think"))), Some("[THINK]".into()));
        assert_eq!(open(ThinkingTags::find(None, |tag| tag.contains("think"))), Some("<think>".into()));
        assert_eq!(ThinkingTags::find(None, |tag| tag == "<think>"), None, "half a pair is none");
        assert_eq!(ThinkingTags::find(Some("{{ messages }}"), none), None);
    }

    #[test]
    fn channels_are_tags_and_an_answer_may_come_without_thinking() {
        let template = "{{ '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking }}";
        let tags = ThinkingTags::find(Some(template), |_| false);
        let run = |text: &str| {
            let mut splitter = ThinkingSplitter::new(tags.clone(), ThinkingStage::Outside);
            let parts: Vec<SplitText> = text.chars().map(|c| splitter.push(&c.to_string())).collect();
            let rest = splitter.finish();
            let join =
                |part: fn(&SplitText) -> &str| -> String { parts.iter().chain([&rest]).map(part).collect() };
            (join(|split| &split.thinking), join(|split| &split.answer))
        };
        let both = "<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>final<|message|>Yes.";
        assert_eq!(run(both), ("so".into(), "Yes.".into()));
        assert_eq!(run("<|channel|>final<|message|>Yes."), (String::new(), "Yes.".into()));
        assert_eq!(run("<|channel|>finally"), (String::new(), "<|channel|>finally".into()));
    }

    #[test]
    fn a_forced_close_ends_the_thinking_and_the_space_after_it() {
        let mut splitter = ThinkingSplitter::new(Some(think()), ThinkingStage::Open);
        assert_eq!(splitter.push("so </").thinking, "so");
        assert!(splitter.is_within_close());
        assert_eq!(splitter.close().thinking, " </", "it was no tag");
        assert_eq!(splitter.push("\n\nyes ").answer, "yes ");
    }
}
