//! A conversation as it is read on screen, as Markdown.

use history::{Attachment, Conversation, Message, Role};

/// Writes the path of a conversation.
pub fn conversation(stored: &Conversation) -> String {
    let mut text = String::new();
    if !stored.title.is_empty() {
        text.push_str(&format!("# {}\n", escaped(&stored.title)));
    }
    for said in &stored.path {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&message(said));
    }
    text
}

fn message(said: &Message) -> String {
    let who = match said.role {
        Role::User => "User",
        Role::Assistant => "Assistant",
    };
    let mut text = format!("## {who}\n");
    if !said.attachments.is_empty() {
        let names: Vec<String> = said.attachments.iter().map(attachment).collect();
        text.push_str(&format!("\nAttached: {}\n", names.join(", ")));
    }
    if !said.thinking.trim().is_empty() {
        let quoted = closed(said.thinking.trim());
        let lines =
            quoted.lines().map(|line| if line.is_empty() { ">".to_owned() } else { format!("> {line}") });
        text.push_str(&format!("\n> **Thinking**\n>\n{}\n", lines.collect::<Vec<_>>().join("\n")));
    }
    if !said.text.trim().is_empty() {
        text.push_str(&format!("\n{}\n", closed(said.text.trim_matches(['\n', '\r']))));
    }
    text
}

fn attachment(attached: &Attachment) -> String {
    let name = attached.name.replace('`', "'");
    match attached.pages {
        Some(1) => format!("`{name}` (1 page)"),
        Some(pages) => format!("`{name}` ({pages} pages)"),
        None => format!("`{name}`"),
    }
}

/// A text with the code block that it leaves open closed: an answer that was stopped must not take what follows along.
fn closed(text: &str) -> String {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let rest = &line[indent..];
        let Some(mark) = rest.chars().next().filter(|c| matches!(c, '`' | '~')) else { continue };
        let length = rest.chars().take_while(|c| *c == mark).count();
        let after = &rest[length..];
        match open {
            Some((opened, needed))
                if mark == opened && length >= needed && after.trim().is_empty() && indent < 4 =>
            {
                open = None;
            }
            None if length >= 3 && !(mark == '`' && after.contains('`')) && indent < 4 => {
                open = Some((mark, length));
            }
            Some(_) | None => {}
        }
    }
    match open {
        Some((mark, length)) => {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{end}{}", mark.to_string().repeat(length))
        }
        None => text.to_owned(),
    }
}

/// A title whose signs are read as they are.
fn escaped(title: &str) -> String {
    let is_sign = |c: char| matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#');
    title.chars().flat_map(|c| is_sign(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_block_that_was_cut_off_is_closed_and_a_whole_one_left_alone() {
        assert_eq!(closed("a\n```rust\nfn"), "a\n```rust\nfn\n```");
        assert_eq!(closed("````\n```\ninner"), "````\n```\ninner\n````");
        assert_eq!(closed("~~~\nx\n```"), "~~~\nx\n```\n~~~");
        for whole in ["```\nx\n```", "`x` and ``` y ```", "    ```\nindented code", "no code", "```x```"] {
            assert_eq!(closed(whole), whole);
        }
    }

    #[test]
    fn a_title_stays_what_it_is() {
        assert_eq!(escaped("a *b* <c> #1"), "a \\*b\\* \\<c\\> \\#1");
    }
}
