//! A lock that programs in several languages share: its znodes have Curator's names.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use zookeeper_client::{Acls, LockPrefix};

use crate::connect;

static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Takes the lock again and again until the input ends, and writes each time into the file when it has it.
pub async fn take(server: &str, directory: &str, file: &str, name: &str) {
    let client = connect(server).await;
    let mut log = OpenOptions::new().append(true).open(file).expect("the file");
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).expect("the input");
        IS_OVER.store(true, Ordering::SeqCst);
    });
    while !IS_OVER.load(Ordering::SeqCst) {
        let prefix = LockPrefix::new_curator(directory, "lock-").expect("a prefix");
        let lock = client.lock(prefix, b"", Acls::anyone_all()).await.expect("lock");
        write(&mut log, &format!("{name} in\n"));
        let _ = client.check_stat(directory).await; // it takes a while; it may be lost
        write(&mut log, &format!("{name} out\n"));
        drop(lock);
    }
}

fn write(log: &mut File, line: &str) {
    log.write_all(line.as_bytes()).expect("write");
}
