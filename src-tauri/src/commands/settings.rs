//! Settings of the app.

use engine::params::InvalidParam;
use protocol::{AppSettings, GateMode, OverlapMode, Preset};
use tauri::State;

use super::CommandResult;
use crate::{
    convert::{to_engine_mode, to_engine_overlap},
    error::AppError,
    generation::check_settings,
    sampling_settings,
    state::AppState,
};

/// Characters of a preset's name, at most.
const NAME_CHARS: usize = 60;

/// Characters of a language's tag, at most: longer ones carry extensions that name no other words.
const LANGUAGE_CHARS: usize = 35;

/// Stores the app's settings and applies those that concern the engine.
///
/// # Errors
/// `InvalidSetting` for the size of text, the language, the settings of new conversations and the presets; the
/// history's.
#[tauri::command]
#[specta::specta]
pub async fn write_app_settings(state: State<'_, AppState>, settings: AppSettings) -> CommandResult<()> {
    Ok(write(&state, settings).await?)
}

/// Stores the gate's mode and applies it from the next step on.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn set_gate_mode(state: State<'_, AppState>, mode: GateMode) -> CommandResult<()> {
    Ok(set_mode(&state, mode).await?)
}

/// Stores whether forward passes may overlap the reading of tokens, and applies it.
///
/// # Errors
/// The history's.
#[tauri::command]
#[specta::specta]
pub async fn set_overlap(state: State<'_, AppState>, mode: OverlapMode) -> CommandResult<()> {
    Ok(set_overlap_mode(&state, mode).await?)
}

/// See [`write_app_settings`].
///
/// # Errors
/// [`AppError::InvalidSetting`], the history's.
pub async fn write(state: &AppState, settings: AppSettings) -> Result<(), AppError> {
    check_settings(state, &settings.new_conversation)?;
    check_text_size(settings.text_size_percent)?;
    check_language(settings.language.as_deref())?;
    check_presets(&settings.presets)?;
    let (mode, overlap) = (settings.gate_mode, settings.overlap);
    state.settings.change(state.history().await?, |current| *current = settings).await?;
    state.engine.set_gate_mode(to_engine_mode(mode)).await;
    state.engine.set_overlap(to_engine_overlap(overlap)).await;
    Ok(())
}

/// See [`set_gate_mode`].
///
/// # Errors
/// The history's.
pub async fn set_mode(state: &AppState, mode: GateMode) -> Result<(), AppError> {
    state.settings.change(state.history().await?, |current| current.gate_mode = mode).await?;
    state.engine.set_gate_mode(to_engine_mode(mode)).await;
    Ok(())
}

/// See [`set_overlap`].
///
/// # Errors
/// The history's.
pub async fn set_overlap_mode(state: &AppState, mode: OverlapMode) -> Result<(), AppError> {
    state.settings.change(state.history().await?, |current| current.overlap = mode).await?;
    state.engine.set_overlap(to_engine_overlap(mode)).await;
    Ok(())
}

fn check_text_size(percent: u16) -> Result<(), InvalidParam> {
    if (90..=150).contains(&percent) {
        return Ok(());
    }
    Err(InvalidParam { field: "text_size_percent", limit: "90 to 150", value: percent.to_string() })
}

/// Whether a tag has the shape of BCP 47: parts of letters and digits, a language of letters first.
fn check_language(tag: Option<&str>) -> Result<(), InvalidParam> {
    let Some(tag) = tag else { return Ok(()) };
    let is_part =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_language =
        |part: &str| (2..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let mut parts = tag.split('-');
    if tag.len() <= LANGUAGE_CHARS && parts.next().is_some_and(is_language) && parts.all(is_part) {
        return Ok(());
    }
    let limit = "a language tag such as \"en\" or \"zh-Hans\"";
    Err(InvalidParam { field: "language", limit, value: format!("\"{tag}\"") })
}

/// Names are unique and say something; settings are within limits that need no model, since models change.
fn check_presets(presets: &[Preset]) -> Result<(), InvalidParam> {
    let invalid = |limit, name: &str| InvalidParam { field: "presets", limit, value: format!("\"{name}\"") };
    for (index, preset) in presets.iter().enumerate() {
        let name = preset.name.as_str();
        if name.trim().is_empty() || name.chars().count() > NAME_CHARS {
            return Err(invalid("named with 1 to 60 characters", name));
        }
        if presets[..index].iter().any(|other| other.name == name) {
            return Err(invalid("of a name each", name));
        }
        sampling_settings::validate(&preset.settings)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Preset {
        Preset { name: name.into(), settings: sampling_settings::defaults() }
    }

    #[test]
    fn a_language_is_a_tag() {
        for good in [None, Some("en"), Some("zh-Hans"), Some("de-AT"), Some("sl-rozaj-biske-1994")] {
            assert_eq!(check_language(good), Ok(()), "{good:?}");
        }
        let long = "en-".to_owned() + &"a-".repeat(20);
        for bad in ["", "e", "en_US", "-en", "en-", "en US", "1n", "../../en", "en-waytoolongpart", &long] {
            assert_eq!(check_language(Some(bad)).expect_err(bad).field, "language");
        }
    }

    #[test]
    fn presets_have_names_that_tell_them_apart_and_settings_that_work() {
        assert_eq!(check_presets(&[named("Careful"), named("careful"), named(&"字".repeat(60))]), Ok(()));
        for bad in [vec![named(" ")], vec![named(&"x".repeat(61))], vec![named("a"), named("b"), named("a")]]
        {
            assert_eq!(check_presets(&bad).expect_err("refused").field, "presets");
        }
        let mut hot = named("Hot");
        hot.settings.temperature = 9.0;
        assert_eq!(check_presets(&[hot]).expect_err("too hot").field, "temperature");
    }
}
