//! `sqlx::migrate!` embeds the folder at compile time; Cargo must notice when a file in it changes.

fn main() {
    println!("cargo:rerun-if-changed=../../../migrations");
}
