//! `braid-import GGUF OUT_DIR`: converts a GGUF file into an MLX folder.
//!
//! Exit codes: 0 done, 1 the file cannot be imported (nothing is left behind), 2 wrong arguments.

use std::{error::Error as _, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [source, target] = arguments.as_slice() else {
        eprintln!(
            "usage: braid-import GGUF OUT_DIR\n\nConverts a Llama, Qwen2 or Qwen3 GGUF file (Q4_0, Q4_1, Q8_0, F16, F32) into an MLX folder."
        );
        return ExitCode::from(2);
    };
    match model_hub::import_gguf(source, target) {
        Ok(summary) => {
            let megabytes = summary.weights_bytes as f64 / 1e6;
            println!(
                "imported {} tensors of {} layers ({megabytes:.1} MB) into {}",
                summary.tensors,
                summary.layers,
                target.display()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("braid-import: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}
