//! A conversation's path -> the messages that the chat template gets.

use history::{Message, Role};
use text::ChatMessage;

/// Builds the messages of a prompt: system prompt if there is one, then the path, which ends with the question.
///
/// What was thought before an answer goes with it: whether the model sees it again is for its chat template to say.
/// Answers that were stopped, interrupted or failed count with the text they have; those without text are left out,
/// and the questions around them become one, because some templates refuse two questions in a row.
pub fn messages(system_prompt: &str, path: &[Message]) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = Vec::with_capacity(path.len() + 1);
    if !system_prompt.trim().is_empty() {
        messages.push(ChatMessage::new(text::Role::System, system_prompt));
    }
    for message in path.iter().filter(|message| !message.text.is_empty()) {
        let said = ChatMessage::new(role(message.role), message.text.as_str());
        let reasoning = (!message.thinking.is_empty()).then(|| message.thinking.clone());
        push(&mut messages, ChatMessage { reasoning, ..said });
    }
    messages
}

fn push(messages: &mut Vec<ChatMessage>, next: ChatMessage) {
    match messages.last_mut() {
        Some(last) if last.role == next.role => {
            last.content.push_str("\n\n");
            last.content.push_str(&next.content);
            last.reasoning = last.reasoning.take().or(next.reasoning);
        }
        _ => messages.push(next),
    }
}

fn role(role: Role) -> text::Role {
    match role {
        Role::User => text::Role::User,
        Role::Assistant => text::Role::Assistant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::{MessageId, MessageState};

    fn message(role: Role, state: MessageState, text: &str) -> Message {
        Message {
            id: MessageId(1),
            parent: None,
            siblings: vec![MessageId(1)],
            role,
            state,
            text: text.into(),
            thinking: String::new(),
            thinking_tokens: 0,
            output_tokens: 0,
            created_at_ms: 0,
            finished_at_ms: None,
            finish_reason: None,
            error_code: None,
            settings_json: None,
            receipt_json: None,
            attachments: Vec::new(),
        }
    }

    #[test]
    fn a_cut_off_answer_counts_and_an_empty_one_leaves_one_question() {
        let path = [
            message(Role::User, MessageState::Complete, "one"),
            message(Role::Assistant, MessageState::Interrupted, "half an ans"),
            message(Role::User, MessageState::Complete, "two"),
            message(Role::Assistant, MessageState::Failed, ""),
            message(Role::User, MessageState::Complete, "three"),
        ];
        let expected = [
            ChatMessage::new(text::Role::System, "Be brief."),
            ChatMessage::new(text::Role::User, "one"),
            ChatMessage::new(text::Role::Assistant, "half an ans"),
            ChatMessage::new(text::Role::User, "two\n\nthree"),
        ];
        assert_eq!(messages("Be brief.", &path), expected);
    }

    #[test]
    fn thinking_goes_with_its_answer() {
        let thought = Message {
            thinking: "so it is".into(),
            ..message(Role::Assistant, MessageState::Complete, "It is.")
        };
        let user = |text| message(Role::User, MessageState::Complete, text);
        let path = [user("one"), thought, user("two")];
        assert_eq!(
            messages("", &path),
            [
                ChatMessage::new(text::Role::User, "one"),
                ChatMessage::new(text::Role::Assistant, "It is.").with_reasoning("so it is"),
                ChatMessage::new(text::Role::User, "two"),
            ]
        );
    }

    #[test]
    fn a_blank_system_prompt_is_none() {
        let path = [message(Role::User, MessageState::Complete, "hi")];
        assert_eq!(messages(" \n", &path), [ChatMessage::new(text::Role::User, "hi")]);
    }
}
