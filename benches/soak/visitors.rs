//! What else is asked of a shop: by buyers who only look, by a seller at the desk, by a platform, and by strangers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;

use support::process::{SECRET, Server, TOKEN};

/// What the platform was told.
#[derive(Default)]
pub struct Visitors {
    sales: AtomicUsize,
    /// The numbers of sales that were taken.
    taken: Mutex<Vec<usize>>,
    pub answered: AtomicUsize,
}

impl Visitors {
    /// One request.
    pub fn visit(&self, server: &Server, chance: &mut StdRng) {
        let admin = format!("Authorization: Bearer {TOKEN}\r\n");
        let json = "Content-Type: application/json\r\n";
        let (method, target, headers, body, expected) = match chance.random_range(0..12) {
            0 => return self.sale(server),
            1 => ("GET", "/api/posts?limit=100".to_owned(), String::new(), String::new(), 200),
            2 => ("GET", "/api/admin/keys?limit=50".to_owned(), admin, String::new(), 200),
            3 => ("GET", "/api/admin/stats?days=7".to_owned(), admin, String::new(), 200),
            4 => ("GET", "/api/admin/messages?state=failed".to_owned(), admin, String::new(), 200),
            5 => ("GET", "/key".to_owned(), String::new(), String::new(), 200),
            6 => ("GET", "/desk/sign-in".to_owned(), String::new(), String::new(), 200),
            7 => {
                let body =
                    json!({ "customer_email": format!("stranger-{}@example.com", chance.random::<u16>()) }).to_string();
                ("POST", "/api/resend".to_owned(), json.to_owned(), body, 200)
            }
            8 => {
                let post = json!({ "title": "News", "category": "news", "content": "x".repeat(500) }).to_string();
                ("POST", "/api/admin/post".to_owned(), format!("{admin}{json}"), post, 200)
            }
            9 => ("GET", "/readyz".to_owned(), String::new(), String::new(), 200),
            _ => {
                ("GET", format!("/api/validate?key=dlv_{}", chance.random::<u64>()), String::new(), String::new(), 401)
            }
        };
        // A server that was killed answers nothing, and one whose database is away 503.
        if let Some((status, answer)) = server.try_call(method, &target, &headers, &body) {
            assert!(status == expected || status == 503, "{method} {target}: {status} {answer}");
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn sale(&self, server: &Server) {
        let number = self.sales.fetch_add(1, Ordering::Relaxed);
        let ping = format!("sale_id={number}&resource_name=sale&permalink=guide&email={}", address(number));
        let answer = server.try_call("POST", &format!("/api/webhook/gumroad?token={SECRET}"), "", &ping);
        match answer {
            Some((200, _)) => self.taken.lock().unwrap().push(number),
            None | Some((503, _)) => {}
            Some((status, answer)) => panic!("a sale was answered {status} {answer}"),
        }
    }

    /// The addresses of whoever bought by the platform.
    pub fn buyers(&self) -> Vec<String> {
        self.taken.lock().unwrap().iter().map(|number| address(*number)).collect()
    }
}

fn address(number: usize) -> String {
    format!("sale-{number}@example.com")
}
