//! Places in the source of a grammar.

use super::schema::unescape;

/// Where something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere in particular.
    Whole,
    /// JSON pointer into a schema.
    Pointer(String),
    /// Line and column in the text, both from 1, the column in characters.
    Text { line: usize, column: usize },
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Pointer(pointer) => f.write_str(pointer),
            Self::Text { line, column } => write!(f, "line {line}, column {column}"),
        }
    }
}

impl Place {
    /// The place of the byte `column`, from 1, of a line.
    pub(super) fn of_bytes(text: &str, line: usize, column: usize) -> Self {
        let before = text.lines().nth(line.saturating_sub(1)).unwrap_or_default().bytes().take(column);
        // A character counts with its first byte.
        let characters = before.filter(|byte| byte & 0b1100_0000 != 0b1000_0000).count();
        Self::Text { line, column: characters.max(1) }
    }

    /// Line and column, if they are known; `text` is the schema that a pointer points into.
    pub(super) fn line_and_column(&self, text: &str) -> Option<(usize, usize)> {
        match self {
            Self::Whole => None,
            Self::Text { line, column } => Some((*line, *column)),
            Self::Pointer(pointer) => {
                let before = &text[..find(text, pointer)?];
                let line_start = before.rfind('\n').map_or(0, |at| at + 1);
                Some((before.matches('\n').count() + 1, before[line_start..].chars().count() + 1))
            }
        }
    }
}

/// Byte in a JSON text at which the name or item that `pointer` ends with begins; of the root, the text's first.
fn find(text: &str, pointer: &str) -> Option<usize> {
    let mut cursor = Cursor { text, at: 0 };
    cursor.skip_space();
    let mut begins = cursor.at;
    for name in pointer.split('/').skip(1) {
        begins = match cursor.peek()? {
            b'{' => cursor.enter_object(&unescape(name))?,
            b'[' => cursor.enter_array(name.parse().ok()?)?,
            _ => return None,
        };
    }
    Some(begins)
}

/// Reads JSON that is known to be well formed.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Goes to the value of the member `name`. Returns where its name begins.
    fn enter_object(&mut self, name: &str) -> Option<usize> {
        loop {
            // Past the brace or comma.
            self.at += 1;
            self.skip_space();
            let begins = self.at;
            self.skip_string()?;
            let spelled: String = serde_json::from_str(&self.text[begins..self.at]).ok()?;
            self.skip_space();
            // Past the colon.
            self.at += 1;
            self.skip_space();
            if spelled == name {
                return Some(begins);
            }
            self.skip_value()?;
            self.skip_space();
            if self.peek()? != b',' {
                return None;
            }
        }
    }

    /// Goes to an item. Returns where it begins.
    fn enter_array(&mut self, index: usize) -> Option<usize> {
        for item in 0.. {
            self.at += 1;
            self.skip_space();
            if item == index {
                break;
            }
            self.skip_value()?;
            self.skip_space();
            if self.peek()? != b',' {
                return None;
            }
        }
        Some(self.at)
    }

    fn skip_string(&mut self) -> Option<()> {
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }

    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' | b',' if depth == 0 => return Some(()),
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_found_where_its_name_begins() {
        let text = "{\n  \"é\": [1, {\"x,}\": \"]\\\"\"},\n   {\"a/b\": null}],\n \"\": {\"~\": {}}}";
        let place = |pointer: &str| Place::Pointer(pointer.into()).line_and_column(text);
        assert_eq!(place(""), Some((1, 1)));
        assert_eq!(place("/é"), Some((2, 3)));
        assert_eq!(place("/é/0"), Some((2, 9)));
        assert_eq!(place("/é/1/x,}"), Some((2, 13)));
        assert_eq!(place("/é/2/a~1b"), Some((3, 5)));
        assert_eq!(place("//~0"), Some((4, 7)));
        for missing in ["/x", "/é/3", "/é/x", "/é/0/x", "/é/1/x,}/y"] {
            assert_eq!(place(missing), None, "{missing}");
        }
    }

    #[test]
    fn columns_are_in_characters() {
        assert_eq!(Place::of_bytes("x\né日x", 2, 6), Place::Text { line: 2, column: 3 });
        assert_eq!(Place::of_bytes("", 1, 0), Place::Text { line: 1, column: 1 });
    }
}
