//! Faults of the ports that the pages need: sign-ins, lost keys and secrets of platforms.

use chrono::{DateTime, Utc};
use delivery_core::email::Email;
use delivery_core::ledger::Edit;
use delivery_core::order::Source;
use delivery_core::store::{
    Ledger, LostKeys, LostScan, PlatformSecrets, SealedSecret, SignIn, SignInId, SignIns, StoreError,
};

use super::{Faulty, port};

port! {
    impl<S: Ledger> SignIns by kept {
        sign_in(sign_in: SignIn) -> ();
        signed_in(id: SignInId) -> Option<SignIn>;
        sign_out(id: SignInId) -> ();
        prune_sign_ins(before: DateTime<Utc>) -> u64;
    }
}

port! {
    impl<S: Ledger> PlatformSecrets by kept {
        platform_secrets() -> Vec<SealedSecret>;
        set_platform_secret(source: &Source, sealed: Option<Vec<u8>>, edit: Edit) -> ();
        reseal_platform_secret(source: &Source, from: &[u8], to: Vec<u8>) -> ();
    }
}

port! {
    impl<S: Ledger> LostKeys by kept {
        ask(email: &Email, at: DateTime<Utc>) -> ();
        answer_lost(scan: LostScan) -> usize;
    }
}
