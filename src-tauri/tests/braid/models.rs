//! The library of models: what is listed, loaded, imported and deleted, over a scripted engine and real folders.

use std::{fs, path::Path};

use app::local_engine::MemoryPolicy;
use engine::testing::Scenario;
use protocol::{ErrorCode, ImportMode, ModelEntry, ModelOrigin};

use crate::support::{Plan, TestApp, until};

/// A folder with everything that is looked at before weights are read.
fn write_model(folder: &Path, model_type: &str) {
    fs::create_dir_all(folder).expect("a writable folder");
    let config = serde_json::json!({
        "model_type": model_type, "hidden_size": 64, "num_hidden_layers": 1, "intermediate_size": 128,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 256,
    });
    let header = br#"{"model.norm.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let length = (header.len() as u64).to_le_bytes();
    let weights = [length.as_slice(), header, &[0; 4]].concat();
    for (name, content) in [
        ("config.json", config.to_string().into_bytes()),
        ("tokenizer.json", b"{}".to_vec()),
        ("model.safetensors", weights),
    ] {
        fs::write(folder.join(name), content).expect("a writable folder");
    }
}

async fn app_with(models: &[(&str, &str)]) -> TestApp {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, model_type) in models {
        write_model(&folder.path().join("models").join(name), model_type);
    }
    TestApp::start_in(folder, Plan::of(Scenario::ShortAnswers)).await
}

async fn listed(app: &TestApp) -> Vec<ModelEntry> {
    app.state.library.list().await.expect("the folders can be listed")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_run_is_listed_with_its_reason() {
    let app = app_with(&[("good", "llama"), ("odd", "mamba")]).await;
    fs::create_dir_all(app.folder.path().join("models/half")).expect("a writable folder");
    fs::write(app.folder.path().join("models/half/config.json"), "{}").expect("a writable folder");
    let models = listed(&app).await;
    let code = |name: &str| {
        let entry = models.iter().find(|entry| entry.model_id == name).expect("it is listed");
        entry.problem.as_ref().map(|problem| problem.code)
    };
    assert_eq!(code("good"), None);
    assert_eq!(code("odd"), Some(ErrorCode::ModelUnsupported));
    assert_eq!(code("half"), Some(ErrorCode::ModelUnusable));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chosen_model_runs_and_is_the_one_of_the_next_start() {
    let app = app_with(&[("first", "llama"), ("second", "llama")]).await;
    let history = app.state.history().await.expect("the database is open");
    app.state.library.load(history, "second", None, MemoryPolicy::Refuse).await.expect("it can be loaded");
    until(async || app.state.library.status().await.loaded_model_id.as_deref() == Some("second")).await;
    app.state.close_history().await;
    let TestApp { folder, .. } = app;
    let next = TestApp::start_in(folder, Plan::of(Scenario::ShortAnswers)).await;
    until(async || next.state.library.status().await.loaded_model_id.as_deref() == Some("second")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_runs_is_not_deleted_and_another_one_is() {
    let app = app_with(&[("runs", "llama"), ("rests", "llama")]).await;
    let history = app.state.history().await.expect("the database is open");
    app.state.library.load(history, "runs", None, MemoryPolicy::Refuse).await.expect("it can be loaded");
    let refused = app.state.library.delete("runs").await.expect_err("it is in use");
    assert_eq!(refused.code(), ErrorCode::ModelInUse);
    app.state.library.delete("rests").await.expect("nobody uses it");
    assert_eq!(listed(&app).await.iter().map(|entry| &entry.model_id).collect::<Vec<_>>(), ["runs"]);
    let gone = app.state.library.delete("rests").await.expect_err("it is gone");
    assert_eq!(gone.code(), ErrorCode::ModelMissing);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_imported_and_a_refused_one_says_why() {
    let app = app_with(&[]).await;
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let source = elsewhere.path().join("mine");
    write_model(&source, "llama");
    app.state.library.import_folder(source.clone(), ImportMode::Reference);
    until(async || listed(&app).await.iter().any(|entry| entry.origin == ModelOrigin::Reference)).await;
    app.state.library.import_folder(source, ImportMode::Copy);
    until(async || listed(&app).await.iter().any(|entry| entry.origin == ModelOrigin::Own)).await;
    assert!(app.state.library.imports().list().is_empty(), "what ended well is off the list");

    let id = app.state.library.import_gguf(elsewhere.path().join("none.gguf"));
    until(async || app.state.library.imports().list().iter().any(|import| import.problem.is_some())).await;
    let failed = app.state.library.imports().list();
    let problem = failed[0].problem.as_ref().expect("it failed");
    assert_eq!(problem.code, ErrorCode::ImportRefused);
    assert!(problem.detail.contains("none.gguf"), "{}", problem.detail);
    app.state.library.imports().dismiss(&id);
    assert!(app.state.library.imports().list().is_empty());
}
