//! Each call of zookeeper-client, and its lock.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use zookeeper_client::{
    Acl, Acls, AddWatchMode, AuthId, Client, CreateMode, Error, EventType, LockPrefix, MultiReadResult,
    MultiWriteError, OneshotWatcher, Permission,
};

use crate::{connect, open};

const DIRECTORIES: usize = 10; // they are not all on one ensemble
const HOLDERS: usize = 3;
const ROUNDS: usize = 10;

pub async fn run(server: &str, root: &str) {
    let client = connect(server).await;
    client.create(root, b"", &open(CreateMode::Persistent)).await.expect("create the root");
    let below = client.clone().chroot(root.to_string()).expect("a chroot");
    values(&below, "/values").await;
    kinds(&below, "/kinds").await;
    watches(&below, "/watches").await;
    lasting_watches(&below, "/lasting").await;
    transactions(&below, "/transactions").await;
    across(&below, "/across").await;
    identities(server, &client, &format!("{root}/identities")).await;
    sessions(server, &client, &format!("{root}/sessions")).await;
    locks(server, &format!("{root}/locks")).await;
}

async fn values(client: &Client, path: &str) {
    let persistent = open(CreateMode::Persistent);
    let missing = format!("{path}/no");
    client.create(path, b"first", &persistent).await.expect("create");
    assert_eq!(client.create(path, b"", &persistent).await.unwrap_err(), Error::NodeExists);
    assert_eq!(client.create(&format!("{missing}/x"), b"", &persistent).await.unwrap_err(), Error::NoNode);
    let (data, stat) = client.get_data(path).await.expect("get");
    assert_eq!((data.as_slice(), stat.version), (b"first".as_slice(), 0));
    assert_eq!(client.set_data(path, b"second", Some(0)).await.expect("set").version, 1);
    assert_eq!(client.set_data(path, b"third", Some(0)).await.unwrap_err(), Error::BadVersion);
    assert_eq!(client.get_data(&missing).await.unwrap_err(), Error::NoNode);
    assert_eq!(client.check_stat(path).await.expect("exists").expect("a stat").data_length, 6);
    assert_eq!(client.check_stat(&missing).await.expect("exists"), None);
    client.sync(path).await.expect("sync");
    for number in 0..DIRECTORIES {
        client.mkdir(&format!("{path}/d{number}/child"), &persistent).await.expect("mkdir");
    }
    let (mut names, stat) = client.get_children(path).await.expect("children");
    names.sort();
    assert_eq!(names, ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9"]);
    assert_eq!(stat.num_children as usize, DIRECTORIES);
    assert_eq!(client.count_descendants_number(path).await.expect("a count"), 2 * DIRECTORIES);
    let (directory, child) = (format!("{path}/d0"), format!("{path}/d0/child"));
    assert_eq!(client.delete(&directory, None).await.unwrap_err(), Error::NotEmpty);
    assert_eq!(client.delete(&child, Some(7)).await.unwrap_err(), Error::BadVersion);
    client.delete(&child, Some(0)).await.expect("delete the child");
    client.delete(&directory, None).await.expect("delete the directory");
    assert_eq!(client.delete(&directory, None).await.unwrap_err(), Error::NoNode);
}

async fn kinds(client: &Client, path: &str) {
    client.create(path, b"", &open(CreateMode::Persistent)).await.expect("create");
    let (prefix, ephemeral) = (format!("{path}/s-"), format!("{path}/e"));
    for number in 0..3 {
        let (_, sequence) =
            client.create(&prefix, b"", &open(CreateMode::PersistentSequential)).await.expect("a sequence");
        assert_eq!(sequence.into_i64(), number);
    }
    let (stat, _) = client.create(&ephemeral, b"", &open(CreateMode::Ephemeral)).await.expect("an ephemeral");
    assert_eq!(stat.ephemeral_owner, client.session_id().0);
    let child = client.create(&format!("{ephemeral}/x"), b"", &open(CreateMode::Persistent)).await;
    assert_eq!(child.unwrap_err(), Error::NoChildrenForEphemerals);
    assert_eq!(client.list_ephemerals(path).await.expect("ephemerals"), [ephemeral]);
    client.create(&format!("{path}/container"), b"", &open(CreateMode::Container)).await.expect("a container");
    let ttl = open(CreateMode::Persistent).with_ttl(Duration::from_secs(3600));
    client.create(&format!("{path}/ttl"), b"", &ttl).await.expect("one with a time to live");
}

async fn expect(watcher: OneshotWatcher, kind: EventType, path: &str) {
    let event = watcher.changed().await;
    assert_eq!((event.event_type, event.path.as_str()), (kind, path));
}

async fn watches(client: &Client, path: &str) {
    let (persistent, child) = (open(CreateMode::Persistent), format!("{path}/child"));
    let (stat, created) = client.check_and_watch_stat(path).await.expect("watch nothing");
    assert_eq!(stat, None);
    client.create(path, b"", &persistent).await.expect("create");
    expect(created, EventType::NodeCreated, path).await;
    let (_, _, changed) = client.get_and_watch_data(path).await.expect("watch a value");
    let (_, listed) = client.list_and_watch_children(path).await.expect("watch children");
    client.set_data(path, b"x", None).await.expect("set");
    expect(changed, EventType::NodeDataChanged, path).await;
    client.create(&child, b"", &persistent).await.expect("create a child");
    expect(listed, EventType::NodeChildrenChanged, path).await;
    let (_, _, deleted) = client.get_and_watch_data(&child).await.expect("watch a value");
    let (_, _, left) = client.get_and_watch_children(&child).await.expect("watch children");
    client.delete(&child, None).await.expect("delete the child");
    expect(deleted, EventType::NodeDeleted, &child).await;
    expect(left, EventType::NodeDeleted, &child).await;
}

async fn lasting_watches(client: &Client, path: &str) {
    client.create(path, b"", &open(CreateMode::Persistent)).await.expect("create");
    let mut watcher = client.watch(path, AddWatchMode::Persistent).await.expect("a watch that stays");
    for _ in 0..3 {
        client.set_data(path, b"x", None).await.expect("set");
        assert_eq!(watcher.changed().await.event_type, EventType::NodeDataChanged);
    }
    let recursive = client.watch(path, AddWatchMode::PersistentRecursive).await;
    assert_eq!(recursive.unwrap_err(), Error::Unimplemented); // over several ensembles
}

async fn transactions(client: &Client, path: &str) {
    let persistent = open(CreateMode::Persistent);
    let [a, b, c] = ["a", "b", "c"].map(|name| format!("{path}/{name}"));
    client.create(path, b"", &persistent).await.expect("create");
    let mut writer = client.new_multi_writer();
    writer.add_create(&a, b"1", &persistent).expect("a create");
    writer.add_set_data(&a, b"2", Some(0)).expect("a set");
    writer.add_check_version(&a, 1).expect("a check");
    writer.add_create(&b, b"", &persistent).expect("a create");
    writer.add_delete(&b, None).expect("a delete");
    assert_eq!(writer.commit().await.expect("a transaction").len(), 5);
    let mut failing = client.new_multi_writer();
    failing.add_create(&c, b"", &persistent).expect("a create");
    failing.add_check_version(&a, 7).expect("a check");
    let failed = MultiWriteError::OperationFailed { index: 1, source: Error::BadVersion };
    assert_eq!(failing.commit().await.unwrap_err(), failed);
    assert_eq!(client.check_stat(&c).await.expect("exists"), None);
    let mut reader = client.new_multi_reader();
    reader.add_get_data(&a).expect("a get");
    reader.add_get_children(path).expect("a listing");
    reader.add_get_data(&c).expect("a get");
    let results = reader.commit().await.expect("reads");
    assert!(matches!(&results[0], MultiReadResult::Data { data, .. } if data == b"2"), "{results:?}");
    assert!(matches!(&results[1], MultiReadResult::Children { children } if *children == ["a"]), "{results:?}");
    assert!(matches!(&results[2], MultiReadResult::Error { err: Error::NoNode }), "{results:?}");
}

/// Transactions of two directories: those of directories on two ensembles are refused whole.
async fn across(client: &Client, path: &str) {
    let persistent = open(CreateMode::Persistent);
    let mut refused = 0;
    for number in 0..DIRECTORIES {
        client.mkdir(&format!("{path}/d{number}"), &persistent).await.expect("mkdir");
    }
    for number in 1..DIRECTORIES {
        let paths = [format!("{path}/d0/with{number}"), format!("{path}/d{number}/x")];
        let mut writer = client.new_multi_writer();
        for each in &paths {
            writer.add_create(each, b"", &persistent).expect("a create");
        }
        let done = writer.commit().await;
        if let Err(error) = &done {
            assert!(matches!(Error::from(error.clone()), Error::BadArguments(_)), "{error}");
            refused += 1;
        }
        for each in &paths {
            assert_eq!(client.check_stat(each).await.expect("exists").is_some(), done.is_ok());
        }
    }
    assert!(refused > 0, "no transaction over ensembles was refused");
}

async fn identities(server: &str, client: &Client, path: &str) {
    let owner = connect(server).await;
    owner.auth("digest", b"rust:secret").await.expect("addauth");
    let creator = CreateMode::Persistent.with_acls(Acls::creator_all());
    owner.create(path, b"mine", &creator).await.expect("create");
    let (mut acl, _) = owner.get_acl(path).await.expect("get its ACL");
    assert_eq!(acl[0].scheme(), "digest");
    assert_eq!(client.get_data(path).await.unwrap_err(), Error::NoAuth);
    acl.push(Acl::new(Permission::READ, AuthId::new("world", "anyone")));
    owner.set_acl(path, &acl, Some(0)).await.expect("set its ACL");
    assert_eq!(client.get_data(path).await.expect("get").0, b"mine");
    let users = owner.list_auth_users().await.expect("whoami");
    assert!(users.iter().any(|each| (each.scheme(), each.user()) == ("digest", "rust")), "{users:?}");
}

/// The ephemerals of a session end with it on all ensembles.
async fn sessions(server: &str, client: &Client, path: &str) {
    let other = connect(server).await;
    let mut ended = Vec::new();
    for number in 0..DIRECTORIES {
        let (directory, made) = (format!("{path}/d{number}"), format!("{path}/d{number}/e"));
        other.mkdir(&directory, &open(CreateMode::Persistent)).await.expect("mkdir");
        other.create(&made, b"", &open(CreateMode::Ephemeral)).await.expect("an ephemeral");
        let (stat, watcher) = client.check_and_watch_stat(&made).await.expect("watch it");
        assert_eq!(stat.expect("a stat").ephemeral_owner, other.session_id().0);
        ended.push((watcher, made));
    }
    drop(other);
    for (watcher, made) in ended {
        expect(watcher, EventType::NodeDeleted, &made).await;
    }
}

/// Several sessions take a lock.
async fn locks(server: &str, directory: &str) {
    static HELD: AtomicI32 = AtomicI32::new(0);
    let holders: Vec<_> = (0..HOLDERS)
        .map(|_| {
            let (server, directory) = (server.to_string(), directory.to_string());
            smol::spawn(async move {
                let client = connect(&server).await;
                client.mkdir(&directory, &open(CreateMode::Persistent)).await.expect("mkdir");
                for _ in 0..ROUNDS {
                    let prefix = LockPrefix::new_curator(&directory, "lock-").expect("a prefix");
                    let lock = client.lock(prefix, b"", Acls::anyone_all()).await.expect("lock");
                    assert_eq!(HELD.fetch_add(1, Ordering::SeqCst), 0);
                    client.get_data("/").await.expect("get"); // it takes a while
                    HELD.fetch_sub(1, Ordering::SeqCst);
                    drop(lock);
                }
            })
        })
        .collect();
    for each in holders {
        each.await;
    }
}
