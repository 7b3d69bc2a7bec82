//! Keys that the app keeps: in the system's keychain, or in files that only this user can read.

mod file;
mod system;

use std::{
    error::Error,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use openai_api::Secret;
use protocol::KeyPlace;

use crate::error::AppError;
use file::KeyFiles;
pub use system::SystemKeychain;

/// How long a keychain may take: it may ask the person for a password first.
const KEYCHAIN_LIMIT: Duration = Duration::from_secs(60);

/// Why a keychain did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeychainError {
    /// There is none.
    #[error("the system has no keychain")]
    Absent,
    /// It refused, or the person did.
    #[error("the system's keychain refused")]
    Refused(#[source] Arc<dyn Error + Send + Sync>),
    /// It did not answer in time.
    #[error("the system's keychain did not answer within {} s", KEYCHAIN_LIMIT.as_secs())]
    Silent,
    /// A file of keys could not be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The file or its folder.
        path: PathBuf,
        /// Why.
        source: Arc<std::io::Error>,
    },
}

/// A keychain of the system. Calls may block, for as long as a person thinks about a password.
pub trait Keychain: Send + Sync + 'static {
    /// Keeps a key, in place of the one before.
    ///
    /// # Errors
    /// [`KeychainError::Absent`], [`KeychainError::Refused`].
    fn store(&self, account: &str, key: &str) -> Result<(), KeychainError>;

    /// Reads a key; `None` if it keeps none for the account.
    ///
    /// # Errors
    /// As [`Self::store`].
    fn read(&self, account: &str) -> Result<Option<String>, KeychainError>;

    /// Erases a key, if it keeps one.
    ///
    /// # Errors
    /// As [`Self::store`].
    fn erase(&self, account: &str) -> Result<(), KeychainError>;
}

/// The keys of the app, by account. Cloning shares them.
#[derive(Clone)]
pub struct Keys {
    files: Arc<KeyFiles>,
    keychain: Arc<OnceLock<Arc<dyn Keychain>>>,
}

impl Keys {
    /// Keys in files below `data`, until a keychain is given.
    pub fn new(data: PathBuf) -> Self {
        Self { files: Arc::new(KeyFiles::new(data.join("keys"))), keychain: Arc::default() }
    }

    /// Prefers a keychain from now on; the first one that is given stays.
    pub fn use_keychain(&self, keychain: impl Keychain) {
        // A second one would be a second composition of the same app.
        let _ = self.keychain.set(Arc::new(keychain));
    }

    /// Keeps a key, in place of the one before. Returns where: in a file only if there is no keychain.
    ///
    /// # Errors
    /// [`AppError::Keychain`].
    pub async fn store(&self, account: &str, key: &Secret) -> Result<KeyPlace, AppError> {
        let (name, text) = (account.to_owned(), key.expose().to_owned());
        let kept = self.in_keychain(move |keychain| keychain.store(&name, &text)).await;
        match kept {
            Ok(()) => Ok(KeyPlace::Keychain),
            Err(KeychainError::Absent) => {
                self.files.store(account, key.expose())?;
                Ok(KeyPlace::File)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the key that is kept in a place; `None` if it is gone.
    ///
    /// # Errors
    /// [`AppError::Keychain`].
    pub async fn read(&self, account: &str, place: KeyPlace) -> Result<Option<Secret>, AppError> {
        let name = account.to_owned();
        let text = match place {
            KeyPlace::None => None,
            KeyPlace::Keychain => self.in_keychain(move |keychain| keychain.read(&name)).await?,
            KeyPlace::File => self.files.read(account)?,
        };
        Ok(text.as_deref().and_then(Secret::new))
    }

    /// Erases the key that is kept in a place.
    ///
    /// # Errors
    /// [`AppError::Keychain`].
    pub async fn erase(&self, account: &str, place: KeyPlace) -> Result<(), AppError> {
        let name = account.to_owned();
        match place {
            KeyPlace::None => {}
            KeyPlace::Keychain => self.in_keychain(move |keychain| keychain.erase(&name)).await?,
            KeyPlace::File => self.files.erase(account)?,
        }
        Ok(())
    }

    async fn in_keychain<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Keychain) -> Result<T, KeychainError> + Send + 'static,
    ) -> Result<T, KeychainError> {
        let Some(keychain) = self.keychain.get().cloned() else { return Err(KeychainError::Absent) };
        let work = tokio::task::spawn_blocking(move || work(&*keychain));
        match tokio::time::timeout(KEYCHAIN_LIMIT, work).await {
            Ok(Ok(done)) => done,
            // A keychain that panics is as good as none.
            Ok(Err(_)) => Err(KeychainError::Absent),
            Err(_) => Err(KeychainError::Silent),
        }
    }
}

/// A name that nobody has used or can guess: 128 random bits in hexadecimal.
pub fn new_id() -> String {
    random_hex::<16>()
}

/// A key that nobody can guess: 256 random bits in hexadecimal.
///
/// # Panics
/// If the system has no randomness to give.
pub fn new_key() -> String {
    format!("braid-{}", random_hex::<32>())
}

fn random_hex<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("every supported system gives randomness once it has started");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashMap, sync::Mutex};

    #[derive(Default)]
    struct InMemory(Mutex<HashMap<String, String>>);

    impl Keychain for InMemory {
        fn store(&self, account: &str, key: &str) -> Result<(), KeychainError> {
            self.0.lock().expect("no test panics").insert(account.into(), key.into());
            Ok(())
        }
        fn read(&self, account: &str) -> Result<Option<String>, KeychainError> {
            Ok(self.0.lock().expect("no test panics").get(account).cloned())
        }
        fn erase(&self, account: &str) -> Result<(), KeychainError> {
            self.0.lock().expect("no test panics").remove(account);
            Ok(())
        }
    }

    struct Refusing;

    fn no() -> KeychainError {
        KeychainError::Refused(Arc::new(std::io::Error::other("the person said no")))
    }

    impl Keychain for Refusing {
        fn store(&self, _: &str, _: &str) -> Result<(), KeychainError> {
            Err(no())
        }
        fn read(&self, _: &str) -> Result<Option<String>, KeychainError> {
            Err(no())
        }
        fn erase(&self, _: &str) -> Result<(), KeychainError> {
            Err(no())
        }
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text).expect("not blank")
    }

    #[tokio::test]
    async fn a_key_goes_to_the_keychain_and_to_no_file_if_there_is_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let keys = Keys::new(folder.path().into());
        keys.use_keychain(InMemory::default());
        assert_eq!(keys.store("a", &secret("k")).await.expect("kept"), KeyPlace::Keychain);
        assert_eq!(keys.read("a", KeyPlace::Keychain).await.expect("read"), Some(secret("k")));
        assert!(!folder.path().join("keys").exists());
        keys.erase("a", KeyPlace::Keychain).await.expect("erased");
        assert_eq!(keys.read("a", KeyPlace::Keychain).await.expect("read"), None);
    }

    #[tokio::test]
    async fn without_a_keychain_a_key_lies_in_a_file_that_only_this_user_reads() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let keys = Keys::new(folder.path().into());
        assert_eq!(keys.store("a", &secret("first")).await.expect("kept"), KeyPlace::File);
        assert_eq!(keys.store("a", &secret("second")).await.expect("kept"), KeyPlace::File);
        assert_eq!(keys.read("a", KeyPlace::File).await.expect("read"), Some(secret("second")));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: PathBuf| path.metadata().expect("it is there").permissions().mode() & 0o777;
            assert_eq!(mode(folder.path().join("keys")), 0o700);
            assert_eq!(mode(folder.path().join("keys/a")), 0o600);
        }
        keys.erase("a", KeyPlace::File).await.expect("erased");
        keys.erase("a", KeyPlace::File).await.expect("nothing to erase is no failure");
        assert_eq!(keys.read("a", KeyPlace::File).await.expect("read"), None);
    }

    #[tokio::test]
    async fn a_keychain_that_refuses_is_not_passed_over() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let keys = Keys::new(folder.path().into());
        keys.use_keychain(Refusing);
        let error = keys.store("a", &secret("k")).await.expect_err("it refuses");
        assert_eq!(error.code(), protocol::ErrorCode::KeychainFailed);
        assert!(!folder.path().join("keys").exists(), "the person chose a keychain, not a file");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_system_without_a_keychain_says_so_at_once() {
        if std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some() {
            // A keychain of a person's own is not for tests.
            return;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let keys = Keys::new(folder.path().into());
        keys.use_keychain(SystemKeychain);
        let began = std::time::Instant::now();
        assert_eq!(keys.store("a", &secret("k")).await.expect("kept"), KeyPlace::File);
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}
