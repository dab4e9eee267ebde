//! A program in Rust on zookeeper-client, at a server or a gateway. It panics if what it gets is wrong.

mod calls;
mod turns;

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

const TIMEOUT: Duration = Duration::from_secs(180);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["calls", server, root] => smol::block_on(calls::run(server, root)),
        ["turns", server, directory, file, name] => smol::block_on(turns::take(server, directory, file, name)),
        _ => panic!("calls HOST:PORT ROOT, or turns HOST:PORT DIRECTORY FILE NAME"),
    }
}

/// A client that has a session.
async fn connect(server: &str) -> Client {
    Client::connector().with_session_timeout(TIMEOUT).connect(server).await.expect("connect")
}

/// How a znode is created that everybody may use.
fn open(mode: CreateMode) -> CreateOptions<'static> {
    mode.with_acls(Acls::anyone_all())
}
