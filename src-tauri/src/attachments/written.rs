//! Bytes of a text file -> text.

use super::Refusal;

/// Share of letters outside ASCII, in percent, up to which bytes pass for Latin-1.
const MAX_LATIN1_PERCENT: usize = 10;

/// Letters outside ASCII in a row up to which bytes pass for Latin-1: other encodings write whole words with them.
const MAX_LATIN1_RUN: usize = 2;

/// Reads UTF-8, UTF-16 with a byte order mark, and Latin-1 where it can be nothing else.
///
/// # Errors
/// [`Refusal::Binary`], [`Refusal::Encoding`].
pub fn decode(bytes: Vec<u8>) -> Result<String, Refusal> {
    if let Some(units) = bytes.strip_prefix(&[0xff, 0xfe]) {
        return utf16(units, u16::from_le_bytes);
    }
    if let Some(units) = bytes.strip_prefix(&[0xfe, 0xff]) {
        return utf16(units, u16::from_be_bytes);
    }
    if bytes.contains(&0) {
        return Err(Refusal::Binary { kind: kind_of(&bytes) });
    }
    match String::from_utf8(bytes) {
        Ok(text) => without_controls(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) => latin1(&error.into_bytes()),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, Refusal> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<String, _>>();
    match text {
        Ok(text) if rest.is_empty() => without_controls(text),
        _ => Err(Refusal::Encoding),
    }
}

/// A file with many control characters is no text, even if its bytes could be one.
fn without_controls(text: String) -> Result<String, Refusal> {
    let is_strange =
        |c: char| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}' | '\u{8}');
    let strange = text.chars().filter(|&c| is_strange(c)).count();
    if strange * 100 > text.len() {
        Err(Refusal::Binary { kind: kind_of(text.as_bytes()) })
    } else {
        Ok(text)
    }
}

fn latin1(bytes: &[u8]) -> Result<String, Refusal> {
    if let Some(kind) = kind_of(bytes) {
        return Err(Refusal::Binary { kind: Some(kind) });
    }
    let strange = bytes.iter().filter(|&&byte| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c));
    if strange.count() > 0 {
        return Err(Refusal::Binary { kind: None });
    }
    let high = bytes.iter().filter(|byte| !byte.is_ascii()).count();
    let letters = bytes.iter().filter(|byte| !byte.is_ascii() || byte.is_ascii_alphabetic()).count();
    let longest_run = bytes.split(u8::is_ascii).map(<[u8]>::len).max().unwrap_or(0);
    let is_sure = high * 100 <= letters * MAX_LATIN1_PERCENT
        && longest_run <= MAX_LATIN1_RUN
        && !bytes.iter().any(|byte| (0x80..0xa0).contains(byte));
    if is_sure { Ok(bytes.iter().map(|&byte| char::from(byte)).collect()) } else { Err(Refusal::Encoding) }
}

/// What the first bytes of a file that is no text say, in words.
pub fn kind_of(bytes: &[u8]) -> Option<String> {
    let kind = infer::get(bytes)?;
    let name = kind.extension().to_uppercase();
    Some(match kind.matcher_type() {
        infer::MatcherType::Image => format!("a picture ({name})"),
        infer::MatcherType::Video => format!("a video ({name})"),
        infer::MatcherType::Audio => format!("a sound file ({name})"),
        infer::MatcherType::Archive => format!("an archive ({name})"),
        infer::MatcherType::App => format!("a program ({name})"),
        infer::MatcherType::Font => format!("a font ({name})"),
        _ => format!("a {name} file"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16_bytes(text: &str, is_little: bool) -> Vec<u8> {
        let order = |unit: u16| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() };
        let marked = format!("\u{feff}{text}");
        marked.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn texts_are_read_in_the_encodings_that_can_be_told() {
        let text = "Grüße, 東京 🗼\n";
        assert_eq!(decode(text.into()).unwrap(), text);
        assert_eq!(decode(format!("\u{feff}{text}").into()).unwrap(), text);
        assert_eq!(decode(utf16_bytes(text, true)).unwrap(), text);
        assert_eq!(decode(utf16_bytes(text, false)).unwrap(), text);
        let latin1 =
            b"Sehr geehrte Frau M\xfcller, viele Gr\xfc\xdfe aus K\xf6ln und bis zum n\xe4chsten Mal";
        assert_eq!(
            decode(latin1.to_vec()).unwrap(),
            "Sehr geehrte Frau Müller, viele Grüße aus Köln und bis zum nächsten Mal"
        );
    }

    #[test]
    fn what_may_be_another_encoding_is_not_guessed() {
        let cyrillic_1251 = b"\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0";
        let shift_jis = b"plain words and \x93\x8c\x8b\x9e";
        let half_utf16 = &utf16_bytes("abc", true)[..7];
        for bytes in [&cyrillic_1251[..], &shift_jis[..], half_utf16] {
            assert!(matches!(decode(bytes.to_vec()), Err(Refusal::Encoding)), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_text_is_called_what_it_is() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        let refusal = decode(png.to_vec()).unwrap_err();
        assert_eq!(refusal.to_string(), "is a picture (PNG); text, Markdown, code and PDF can be attached");
        for bytes in [&b"\0\0\0\0"[..], b"\x01\x02\x03\x04", b"\xff\x01\x02"] {
            assert!(matches!(decode(bytes.to_vec()), Err(Refusal::Binary { .. })), "{bytes:?}");
        }
        assert!(decode(b"\x1b[31mred\x1b[0m of a terminal".to_vec()).is_ok());
    }
}
