//! Requests of buyers who have lost their keys.

use super::Delivery;
use crate::email::Email;
use crate::store::StoreError;

impl Delivery {
    /// Saves a buyer's request for all keys of an address. The keys are looked up later, so that neither the response
    /// nor its timing reveals whether the address has keys. A [started](Self::start) service then sends an e-mail with
    /// the newest keys of the address, except revoked ones. An address gets at most one such e-mail an hour. The letter
    /// case of `email` does not matter: the e-mail goes to the address as it is stored with the newest of these keys.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no such requests; another [`StoreError`] if the request may not
    /// have been saved.
    pub async fn ask_for_keys(&self, email: &Email) -> Result<(), StoreError> {
        let inner = &self.inner;
        inner.office()?.ask(email, inner.clock.now()).await?;
        inner.asked.notify_one();
        Ok(())
    }
}
