//! The keychain of macOS, and the Secret Service of Linux desktops.

use std::sync::Arc;

use keyring_core::{Entry, Error, api::CredentialStoreApi as _};

use super::{Keychain, KeychainError};

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store;
#[cfg(target_os = "linux")]
use dbus_secret_service_keyring_store::Store;

/// What the keys are kept under.
const SERVICE: &str = "Braid";

/// The system's keychain, if it has one. Asked anew each time: it may come and go.
#[derive(Debug, Clone, Copy)]
pub struct SystemKeychain;

impl Keychain for SystemKeychain {
    fn store(&self, account: &str, key: &str) -> Result<(), KeychainError> {
        entry(account)?.set_password(key).map_err(refused)
    }

    fn read(&self, account: &str) -> Result<Option<String>, KeychainError> {
        match entry(account)?.get_password() {
            Ok(key) => Ok(Some(key)),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(refused(error)),
        }
    }

    fn erase(&self, account: &str) -> Result<(), KeychainError> {
        match entry(account)?.delete_credential() {
            Ok(()) | Err(Error::NoEntry) => Ok(()),
            Err(error) => Err(refused(error)),
        }
    }
}

fn entry(account: &str) -> Result<Entry, KeychainError> {
    if !may_have_one() {
        return Err(KeychainError::Absent);
    }
    match Store::new() {
        Ok(store) => store.build(SERVICE, account, None).map_err(refused),
        Err(error) => {
            tracing::info!(%error, "the system has no keychain");
            Err(KeychainError::Absent)
        }
    }
}

fn refused(error: Error) -> KeychainError {
    KeychainError::Refused(Arc::new(error))
}

/// Whether it makes sense to ask: without a session bus there is no Secret Service, and looking for one may start a
/// bus or wait for it.
fn may_have_one() -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_socket = std::env::var_os("XDG_RUNTIME_DIR")
        .is_some_and(|folder| std::path::Path::new(&folder).join("bus").exists());
    is_set("DBUS_SESSION_BUS_ADDRESS") || has_socket
}
