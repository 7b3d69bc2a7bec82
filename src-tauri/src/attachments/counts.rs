//! How many tokens texts have for the loaded model. Counting a megabyte takes a second, so that no caller waits for
//! one that was not asked for.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use engine::EnginePhase;
use history::{AttachmentId, History, TextId};
use text::{SpecialTokens, Tokenizer};

use crate::local_engine::{EngineLink, LocalEngine};

/// How long opening a conversation waits for counts.
const PATIENCE: Duration = Duration::from_millis(100);

/// What was counted, by model and text. Cloning shares it.
#[derive(Clone, Default)]
pub struct TokenCounts {
    shared: Arc<Mutex<Counted>>,
}

#[derive(Default)]
struct Counted {
    tokens: HashMap<(PathBuf, TextId), u32>,
    /// Being counted now.
    running: HashSet<(PathBuf, TextId)>,
}

impl TokenCounts {
    /// Counts a stored text and keeps the figure; `None` without a model.
    pub async fn count(&self, engine: &LocalEngine, id: TextId, text: Arc<str>) -> Option<u32> {
        let (tokenizer, model) = reader(engine)?;
        let key = (model, id);
        if let Some(known) = self.lock().tokens.get(&key) {
            return Some(*known);
        }
        let tokens = tokenise(tokenizer, text).await?;
        self.lock().tokens.insert(key, tokens);
        Some(tokens)
    }

    /// What is known of a stored text now.
    pub fn known(&self, engine: &LocalEngine, id: TextId) -> Option<u32> {
        let (_, model) = reader(engine)?;
        self.lock().tokens.get(&(model, id)).copied()
    }

    /// What is known of stored texts within a moment; the others go on being counted, one after the other.
    pub async fn soon(
        &self,
        engine: &LocalEngine,
        history: &History,
        wanted: Vec<(TextId, AttachmentId)>,
    ) -> HashMap<TextId, u32> {
        let Some((tokenizer, model)) = reader(engine) else { return HashMap::new() };
        let texts: Vec<TextId> = wanted.iter().map(|(text, _)| *text).collect();
        let missing: Vec<_> = {
            let mut counted = self.lock();
            let mut is_new = |text: TextId| {
                let key = (model.clone(), text);
                !counted.tokens.contains_key(&key) && counted.running.insert(key)
            };
            wanted.into_iter().filter(|(text, _)| is_new(*text)).collect()
        };
        if !missing.is_empty() {
            let counting =
                tokio::spawn(self.clone().count_all(tokenizer, model.clone(), history.clone(), missing));
            // The task goes on when nobody waits for it.
            let _ = tokio::time::timeout(PATIENCE, counting).await;
        }
        let counted = self.lock();
        let known = |text: TextId| counted.tokens.get(&(model.clone(), text)).map(|tokens| (text, *tokens));
        texts.into_iter().filter_map(known).collect()
    }

    async fn count_all(
        self,
        tokenizer: Tokenizer,
        model: PathBuf,
        history: History,
        missing: Vec<(TextId, AttachmentId)>,
    ) {
        for (text, attachment) in missing {
            let key = (model.clone(), text);
            let tokens = match history.attachment_text(attachment).await {
                Ok(content) => tokenise(tokenizer.clone(), content.into()).await,
                Err(error) => {
                    tracing::warn!(%error, "the tokens of an attachment cannot be counted");
                    None
                }
            };
            let mut counted = self.lock();
            counted.running.remove(&key);
            counted.tokens.extend(tokens.map(|tokens| (key, tokens)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        // Every change is complete when it panics, if it ever does.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tokens of a text for the loaded model; `None` without a model, and for a text that it refuses.
pub async fn count_tokens(engine: &LocalEngine, text: String) -> Option<u32> {
    let (tokenizer, _) = reader(engine)?;
    tokenise(tokenizer, text.into()).await
}

fn reader(engine: &LocalEngine) -> Option<(Tokenizer, PathBuf)> {
    match &*engine.link().borrow() {
        EngineLink::Running(running) => {
            let is_unloaded = matches!(running.handle.status().borrow().phase, EnginePhase::Unloaded);
            (!is_unloaded).then(|| (running.tokenizer.clone(), running.model.path.clone()))
        }
        EngineLink::Starting | EngineLink::Unavailable(_) => None,
    }
}

async fn tokenise(tokenizer: Tokenizer, text: Arc<str>) -> Option<u32> {
    let counted = tokio::task::spawn_blocking(move || tokenizer.encode(&text, SpecialTokens::AsText));
    match counted.await {
        Ok(Ok(tokens)) => u32::try_from(tokens.len()).ok(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the tokenizer refuses a text");
            None
        }
        Err(_) => None,
    }
}
