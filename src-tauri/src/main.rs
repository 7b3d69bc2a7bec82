//! Braid, the desktop app.

fn main() {
    // SAFETY: first statement of the process; no other thread exists that could read the environment.
    unsafe { mlx_backend::device::prepare_environment() };
    if let Some(language) = app::language_to_set() {
        // SAFETY: as above.
        unsafe {
            std::env::remove_var("LC_ALL");
            std::env::set_var("LANG", language);
        }
    }
    if app::attachments::pdf::is_reader() {
        std::process::exit(app::attachments::pdf::run_reader());
    }
    if let Err(error) = app::run() {
        eprintln!("Braid cannot start: {error}");
        std::process::exit(1);
    }
}
