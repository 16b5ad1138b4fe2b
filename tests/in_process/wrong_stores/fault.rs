//! The faults that stores have here, one at a time, each with the cases that it must fail.

macro_rules! faults {
    ($($fault:ident: $($case:literal),+;)+) => {
        /// What is wrong with a store.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub enum Fault {
            #[default]
            None,
            $($fault,)+
        }

        /// Each fault with each case that it must fail.
        pub const WRONG: &[(Fault, &str)] = &[$($((Fault::$fault, $case),)+)+];
    };
}

faults! {
    // Keys and orders.
    FindsWhatIsNotThere: "an_unknown_key_is_not_found_and_not_changed";
    ForgetsTheOrder: "an_order_and_product_have_one_key_however_many_calls_race";
    IgnoresTheSource: "another_product_source_or_order_is_another_purchase";
    TakesTheAddressForTheOrder: "a_key_issued_by_hand_has_no_order_and_is_always_new";
    QueuesAMessageForAReplay: "a_replayed_order_answers_with_its_key_as_it_stands_and_queues_no_message";
    AnswersAReplayWithTheKeyAsItWasIssued: "a_replayed_order_answers_with_its_key_as_it_stands_and_queues_no_message";
    RefusesARepeatedSale: "a_sale_that_is_repeated_is_one_key_and_new_each_time";
    CountsTwice: "a_use_is_counted_and_answered_with_the_key_as_it_stands";
    CountsWithoutKeeping: "a_use_is_counted_and_answered_with_the_key_as_it_stands";
    GrantsWhatIsRefused: "a_refused_change_changes_nothing";
    GrantsOneUseTooMany: "of_many_racing_uses_exactly_the_limit_is_granted";
    AsksNoRule: "a_rule_judges_the_use_that_is_counted_however_many_race";
    CountsForAnotherKey: "uses_of_different_keys_do_not_mix";
    RestoresByItself: "a_revoked_key_stays_revoked";
    DoesNotRestore: "a_restored_key_is_what_it_was";
    IgnoresNewTerms: "new_terms_hold_from_the_next_use_on";
    KeepsTheOldAddress: "a_corrected_address_is_found_and_the_old_one_is_not";
    RotatesAgain: "a_key_is_rotated_once_however_many_calls_race";
    CountsFromZeroAfterARotation: "a_rotated_key_gives_its_place_to_its_successor";
    AcceptsAnyKeyring: "a_keyring_with_a_known_secret_is_accepted_and_a_foreign_one_refused";
    HasNoPulse: "a_ledger_in_use_answers_a_ping";
    // Searches and histories.
    ListsOldestFirst: "keys_are_searched_by_every_field_newest_first_in_pages";
    IgnoresTheStatus:
        "keys_are_searched_by_every_field_newest_first_in_pages",
        "searches_find_the_same_before_and_after_expired_keys_are_marked";
    IgnoresThePeriod:
        "keys_are_searched_by_every_field_newest_first_in_pages",
        "every_change_is_in_the_audit_log_with_who_made_it",
        "messages_are_listed_newest_first_by_state_and_key",
        "an_event_is_listed_with_what_it_came_to";
    IgnoresTheBeginOfAnAddress: "keys_are_searched_by_every_field_newest_first_in_pages";
    IgnoresThePageSize: "a_page_has_at_least_one_and_at_most_a_thousand";
    SkipsAKeyBetweenPages: "keys_are_searched_by_every_field_newest_first_in_pages";
    RepeatsTheFirstPageOfAHistory: "history_has_every_use_newest_first_in_pages";
    PrunesNothing: "pruned_history_is_forgotten_and_counts_stay";
    // Messages.
    LosesTheMessage: "messages_come_oldest_first_and_no_more_than_asked_for";
    LosesTheMessageOfAChange: "a_change_queues_its_messages_with_it_and_a_refused_one_queues_none";
    QueuesAMessageForARefusal: "a_change_queues_its_messages_with_it_and_a_refused_one_queues_none";
    HandsOutNewestFirst: "messages_come_oldest_first_and_no_more_than_asked_for";
    HandsOutMoreThanAskedFor: "messages_come_oldest_first_and_no_more_than_asked_for";
    HandsOutByNumber: "messages_come_by_the_time_at_which_they_are_due";
    LeasesToMany: "a_message_is_claimed_by_one_of_many";
    LeasesForTooLong: "a_claimed_message_is_leased_until_its_time_is_over";
    SendsAgain: "a_sent_message_is_never_due_again";
    RetriesAtOnce: "a_retried_message_is_due_at_its_time_with_its_attempts_counted";
    CountsAPostponement: "a_postponed_message_is_due_at_its_time_and_its_attempt_not_counted";
    CountsARelease: "a_released_message_is_due_at_once_and_its_attempt_not_counted";
    CompletesAnOldLease: "a_lease_settles_once_and_only_with_the_newest_lease";
    ForgetsAFailure: "a_failed_message_waits_for_the_seller";
    ListsFailuresByNumber: "failed_messages_are_in_the_order_in_which_they_failed";
    RetriesTheSameRoute: "messages_that_failed_by_another_way_are_due_again";
    RenewsNothing: "a_lease_is_renewed_as_long_as_it_is_held";
    // Events of platforms.
    ReceivesACopyAsNew: "an_event_is_received_once_however_many_calls_race";
    ForgetsTheReason: "an_event_is_listed_with_what_it_came_to";
    ListsEventsOfAnyPlatform: "an_event_is_listed_with_what_it_came_to";
    IgnoresTheOutcome: "an_event_is_listed_with_what_it_came_to";
    LeasesAnEventToMany: "an_event_that_waits_is_leased_to_one_and_applied_once";
    RetriesEventsOfAnyPlatform: "an_event_that_waits_for_the_seller_is_due_when_it_is_retried";
    RetriesEventsOfAnyCustomer: "an_event_that_waits_for_the_seller_is_due_when_it_is_retried";
    PrunesWhatWaits: "events_that_are_done_are_pruned_and_what_they_came_to_stays";
    ForgetsCustomers: "the_address_of_a_customer_is_the_last_that_was_told";
    FindsCustomersByCase: "the_address_of_a_customer_is_the_last_that_was_told";
    TakesOlderAddresses: "the_address_of_a_customer_is_the_last_that_was_told";
    ForgetsTheGrace: "charges_of_a_subscription_that_race_have_one_key_that_lives_as_long_as_it_is_paid";
    FindsDealsByOrdersAlone: "a_deal_is_found_by_each_of_its_references_and_merged_deals_are_one";
    ForgetsCurrencies: "what_was_paid_is_in_the_figures_of_its_day";
    ForgetsDismissals: "a_product_is_dismissed_once_until_that_is_taken_back";
    ListsAProductOften: "a_product_that_is_not_sold_here_is_listed_once";
    // Files.
    DropsReplacedFiles: "a_replaced_file_stays_as_a_former_row";
    DropsDeletedFiles: "a_deleted_file_stays_as_a_former_row";
    ForgetsCurrentFiles: "only_former_rows_are_forgotten";
    SkipsAFile: "rows_are_listed_page_by_page";
    FindsFilesOfAnyProduct: "a_product_has_its_files_by_name";
    ForgetsWhoAddsAFile: "every_change_of_a_file_is_in_the_audit_log_with_who_made_it";
    KeepsFilesOfUnknownProducts: "files_of_unknown_products_are_refused";
    // Requests that come again.
    CountsEveryRequest: "a_request_counts_once_and_is_answered_ten_times_more";
    ForgetsARequestAtItsRepeat: "a_request_counts_once_and_is_answered_ten_times_more";
    KnowsRequestsForEver: "a_request_is_known_for_a_day";
    ForgetsTheProductOfARequest: "a_name_is_of_one_key_and_one_product";
    CallsEveryFetchNew: "a_request_counts_once_and_is_answered_ten_times_more";
    PrunesNewRequests: "old_requests_are_pruned_and_counts_stay";
    // Aliases of imported keys.
    LosesAliases: "an_alias_finds_its_key";
    FindsTheLastAlias: "an_alias_finds_its_key";
    AlwaysHasAliases: "a_store_tells_whether_it_has_aliases";
    ForgetsUsesMadeElsewhere: "uses_that_were_made_elsewhere_count";
    GivesAReplayAnAlias: "a_repeated_sale_keeps_its_alias";
    SellsWithoutTheAlias:
        "an_alias_of_another_key_is_refused_and_changes_nothing",
        "an_alias_is_of_one_key_however_many_calls_race",
        "an_alias_told_to_both_handles_is_of_one_key";
    FindsTheSuccessor: "a_rotated_key_keeps_its_alias";
    FindsErasedAliases: "an_erased_person_keeps_the_aliases_of_keys_that_work";
    // Records.
    ListsMessagesOfAnyState: "messages_are_listed_newest_first_by_state_and_key";
    ForgetsWhoDidIt: "every_change_is_in_the_audit_log_with_who_made_it";
    ListsWhatAnybodyDid: "every_change_is_in_the_audit_log_with_who_made_it";
    ListsEveryAction: "every_change_is_in_the_audit_log_with_who_made_it";
    ForgetsWhy: "every_change_is_in_the_audit_log_with_who_made_it";
    CountsWhatWasSentAsFailed: "the_backlog_is_what_waits_and_what_failed";
    CountsWhatWasSentAgain:
        "the_backlog_is_what_waits_and_what_failed",
        "a_failed_e_mail_about_which_nobody_can_do_anything_is_not_unanswered";
    CountsRevocationsAsSales: "figures_count_keys_and_what_happened_on_each_day";
    TellsTooEarly: "a_buyer_is_told_once_of_each_time_at_which_a_key_expires";
    TellsAfterTheyExpired: "a_buyer_is_told_once_of_each_time_at_which_a_key_expires";
    ErasesNothing: "an_erased_person_is_nowhere_and_counts_stay";
    ForgetsWhatWasErased: "a_sale_without_a_key_of_an_erased_person_is_never_kept_again";
    // Sessions, and keys that were lost.
    KeepsRemovedSecrets: "the_secret_of_a_platform_is_kept_replaced_and_removed";
    ResealsWhateverIsThere: "the_secret_of_a_platform_is_kept_replaced_and_removed";
    SignsNobodyOut: "a_session_is_found_until_it_is_ended";
    PrunesSessions: "sessions_that_are_over_are_pruned";
    LosesWhatBuyersAsk: "who_lost_keys_is_written_to_once_an_hour";
    AnswersMoreThanAsked: "requests_are_answered_in_order_and_so_many_at_once";
    AnswersTooLate: "who_lost_keys_is_written_to_once_an_hour";
    // Opening again, and two handles.
    ForgetsAtReopening:
        "what_was_acknowledged_is_there_when_the_store_is_opened_again",
        "an_imported_key_has_its_alias_when_the_store_is_opened_again",
        "what_one_handle_writes_the_other_reads";
    AnswersBeforeTheCommit: "a_key_goes_on_where_it_was_when_the_store_is_opened_again";
    AnswersWhenClosed: "a_closed_store_refuses_everything";
    ServesACopy: "what_one_handle_writes_the_other_reads";
}
