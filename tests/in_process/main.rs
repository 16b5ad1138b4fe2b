//! Delivery inside this process, over memory: hosts, e-mails, platforms, observers, and what must hold of the code itself.

mod bindings;
mod calls;
mod cross_origin;
mod desk_forms;
mod desk_lists;
mod doubles;
mod export;
mod files;
mod guards;
mod hosts_ports;
mod hosts_rules;
mod hosts_sign_in;
mod import;
mod mail_folder;
mod mail_limits;
mod observer;
mod outbox;
mod platform_secrets;
mod platforms;
mod readme;
mod rocket;
mod rotated;
mod simulation;
mod smtp;
mod webhooks;
mod wrong_stores;
