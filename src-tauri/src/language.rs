//! The language that the webview reports to the UI.

use std::env;

const FALLBACK: &str = "en_US.UTF-8";

/// The `LANG` to set when the environment names no language; `None` if it does.
///
/// In the C locale WebKit reports the language "C", which `Intl` refuses: the UI would throw before its first frame.
pub fn language_to_set() -> Option<&'static str> {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_MESSAGES")).or_else(|| set("LANG"));
    (!names_a_language(locale.as_deref())).then_some(FALLBACK)
}

fn names_a_language(locale: Option<&str>) -> bool {
    let language = locale.unwrap_or_default().split(['.', '@']).next().unwrap_or_default();
    !matches!(language, "" | "C" | "POSIX")
}

#[cfg(test)]
mod tests {
    use super::names_a_language;

    #[test]
    fn the_c_locale_is_no_language() {
        for locale in [None, Some(""), Some("C"), Some("C.UTF-8"), Some("POSIX")] {
            assert!(!names_a_language(locale), "{locale:?}");
        }
        for locale in ["en_US.UTF-8", "de_DE", "ja_JP.eucJP"] {
            assert!(names_a_language(Some(locale)), "{locale}");
        }
    }
}
