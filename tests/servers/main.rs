//! The servers as a seller starts them. Tests of the service run on axum and on Rocket, tests of connections on axum alone: Rocket
//! leaves those to the proxy in front of it.

mod attack;
mod bad_input;
mod bookshops;
mod clients;
mod commands;
mod crash;
mod disk;
mod files;
mod kept;
mod mail;
mod power;
mod proxy;
mod run;
mod secrets;
mod start;
mod two;
mod watch;

macro_rules! on {
    ($folder:ident, $program:literal, $($(#[$needs:meta])* $module:ident :: $test:ident),* $(,)?) => {
        mod $folder {
            $(#[test] $(#[$needs])* fn $test() { crate::$module::$test(&support::process::Site::new($program)); })*
        }
    };
}

macro_rules! on_both {
    ($($tests:tt)*) => {
        on!(axum, "axum_server", $($tests)*);
        on!(rocket, "rocket_server", $($tests)*);
    };
}

on_both! {
    #[cfg_attr(without = "curl", ignore = "needs curl")]
    start::the_first_start_prints_three_lines_that_work_and_later_starts_are_silent,
    start::what_makes_no_sense_is_a_refusal_that_names_the_setting_and_repeats_no_secret,
    start::a_port_alone_is_listened_on_at_every_address,
    start::an_empty_variable_counts_as_not_set,
    mail::what_failed_is_sent_when_the_settings_are_mended_and_by_hand,
    commands::a_check_says_what_it_finds_and_changes_nothing,
    #[cfg_attr(any(without = "postgres", without = "redis-server"), ignore = "needs postgres and redis-server")]
    commands::a_check_reads_a_shared_database_and_redis,
    commands::a_backup_beside_a_busy_server_has_all_that_was_answered,
    commands::a_backup_that_cannot_be_made_leaves_the_last_one,
    commands::a_test_mail_says_whether_the_mail_server_took_it,
    commands::a_health_check_asks_the_server_that_runs,
    commands::sales_from_elsewhere_are_imported_and_each_row_is_reported,
    commands::secrets_come_from_files_too,
    watch::metrics_count_what_happened_apart_from_the_api,
    watch::the_log_can_be_an_object_a_line,
    watch::the_seller_is_told_of_what_failed_for_good,
    watch::a_program_of_the_sellers_is_told_of_keys,
    #[cfg_attr(without = "faketime", ignore = "needs faketime")]
    watch::old_records_of_uses_are_deleted_and_counts_stay,
    #[cfg_attr(without = "strace", ignore = "needs strace")]
    disk::a_disk_that_hangs_keeps_nobody_waiting,
    #[cfg_attr(without = "mount", ignore = "needs mount")]
    disk::a_server_starts_on_a_full_disk,
    run::a_log_that_nobody_takes_stops_nothing,
    files::a_thousand_parts_some_broken_off_are_one_use_and_the_whole_file,
    files::an_upload_that_breaks_off_leaves_nothing,
    files::a_replaced_and_a_deleted_file_are_read_to_their_end,
    files::a_file_that_has_lost_its_end_is_in_the_log,
    kept::a_file_of_secrets_is_only_ever_added_to,
    kept::a_secret_that_a_crash_left_behind_is_found_again,
    kept::files_are_for_their_owner_alone,
    kept::keys_begin_as_the_first_start_says,
    kept::no_secret_is_made_for_a_database_that_has_keys,
    secrets::nothing_secret_is_told_logged_or_kept,
    run::limits_terms_and_sellers_are_the_configured_ones,
    run::an_erased_person_is_in_no_file,
    run::health_and_readiness_and_unknown_paths,
    run::the_api_describes_itself_to_programs_and_to_people,
    run::every_answer_has_a_name_that_the_log_knows_and_the_log_has_no_query,
    run::a_body_that_breaks_off_is_incomplete,
    #[cfg_attr(without = "full", ignore = "needs full")]
    run::a_log_that_cannot_be_written_stops_nothing,
    run::open_requests_are_finished_and_then_the_server_ends,
    run::a_server_that_stops_says_so_and_a_second_signal_ends_its_delay,
}

on! {
    connections, "axum_server",
    clients::five_hundred_slow_clients_keep_nobody_out_and_are_all_cut_off,
    clients::with_all_places_busy_a_client_waits_for_the_next_that_is_free,
    clients::who_is_idle_longest_makes_room_for_who_asks,
    clients::who_sends_no_body_makes_room_for_who_asks,
    clients::one_address_keeps_no_other_out,
    clients::whoever_takes_no_answer_fills_no_memory_and_is_cut_off,
    clients::a_connection_made_while_the_server_starts_is_served,
    clients::a_request_names_its_host_once,
    clients::who_sends_too_long_a_body_is_told,
    clients::who_forwards_in_two_lines_is_believed_in_none,
    #[cfg_attr(without = "nginx", ignore = "needs nginx")]
    proxy::behind_nginx_addresses_limits_cookies_and_bodies_are_right,
    #[cfg_attr(without = "caddy", ignore = "needs caddy")]
    proxy::behind_caddy_addresses_limits_cookies_and_bodies_are_right,
    #[cfg_attr(any(without = "nginx", without = "postgres"), ignore = "needs nginx and postgres")]
    proxy::behind_nginx_one_of_two_servers_restarts_without_a_failed_request,
    #[cfg_attr(any(without = "caddy", without = "postgres"), ignore = "needs caddy and postgres")]
    proxy::behind_caddy_one_of_two_servers_restarts_without_a_failed_request,
    #[cfg_attr(without = "nginx", ignore = "needs nginx")]
    attack::bodies_that_nobody_reads_fail_no_order_behind_nginx,
    #[cfg_attr(without = "caddy", ignore = "needs caddy")]
    attack::bodies_that_nobody_reads_fail_no_order_behind_caddy,
    attack::an_answer_before_the_end_of_a_body_is_the_last_of_its_connection,
    attack::bodies_of_strangers_fill_no_memory,
    attack::bodies_that_drip_keep_nobody_out,
    attack::one_key_fills_no_memory_and_keeps_nobody_waiting,
    run::a_body_that_is_framed_wrongly_is_told_so,
}
