import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** Each call of ZooKeeper's own client, most of them by Curator. */
final class Calls {
    private static final int DIRECTORIES = 10; // they are not all on one ensemble

    private final String server;
    private final String root;
    private final CuratorFramework client;

    Calls(String server, String root) throws InterruptedException {
        this.server = server;
        this.root = root;
        client = Neighbour.connect(server);
    }

    void run() throws Exception {
        client.create().forPath(root);
        values(root + "/values");
        kinds(root + "/kinds");
        watches(root + "/watches");
        lastingWatches(root + "/lasting");
        transactions(root + "/transactions");
        identities(root + "/identities");
        sessions(root + "/sessions");
        client.close();
    }

    private void values(String path) throws Exception {
        Neighbour.same("create", client.create().forPath(path, "first".getBytes()), path);
        Neighbour.fails("create again", Code.NODEEXISTS, () -> client.create().forPath(path));
        Neighbour.fails("create without a parent", Code.NONODE, () -> client.create().forPath(path + "/no/child"));
        Stat stat = new Stat();
        Neighbour.same("get", Neighbour.text(client.getData().storingStatIn(stat).forPath(path)), "first");
        Neighbour.same("its version", stat.getVersion(), 0);
        Neighbour.same("set", client.setData().withVersion(0).forPath(path, "second".getBytes()).getVersion(), 1);
        Neighbour.fails("set an old version", Code.BADVERSION, () -> client.setData().withVersion(0).forPath(path));
        Neighbour.fails("get nothing", Code.NONODE, () -> client.getData().forPath(path + "/no"));
        Neighbour.same("exists", client.checkExists().forPath(path).getDataLength(), "second".length());
        Neighbour.same("exists", client.checkExists().forPath(path + "/no"), null);
        client.sync().forPath(path);
        for (int number = 0; number < DIRECTORIES; number++) {
            client.create().creatingParentsIfNeeded().forPath(path + "/d" + number + "/child");
        }
        Neighbour.same(
                "children", Neighbour.sorted(client.getChildren().storingStatIn(stat).forPath(path)),
                "d0 d1 d2 d3 d4 d5 d6 d7 d8 d9");
        Neighbour.same("their number", stat.getNumChildren(), DIRECTORIES);
        Neighbour.same("all below it", raw().getAllChildrenNumber(path), 2 * DIRECTORIES);
        Neighbour.fails("delete what has a child", Code.NOTEMPTY, () -> client.delete().forPath(path + "/d0"));
        Neighbour.fails(
                "delete another version", Code.BADVERSION, () -> client.delete().withVersion(7).forPath(path + "/d0/child"));
        client.delete().deletingChildrenIfNeeded().forPath(path);
        Neighbour.fails("delete it again", Code.NONODE, () -> client.delete().forPath(path));
    }

    private ZooKeeper raw() throws Exception {
        return client.getZookeeperClient().getZooKeeper();
    }

    private void kinds(String path) throws Exception {
        client.create().forPath(path);
        for (int number = 0; number < 3; number++) {
            Neighbour.same(
                    "a sequence", client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(path + "/s-"),
                    path + "/s-000000000" + number);
        }
        Stat stat = new Stat();
        String made = client.create().storingStatIn(stat).withMode(CreateMode.EPHEMERAL).forPath(path + "/e");
        Neighbour.same("an ephemeral's owner", stat.getEphemeralOwner(), raw().getSessionId());
        Neighbour.fails("it has no children", Code.NOCHILDRENFOREPHEMERALS, () -> client.create().forPath(made + "/x"));
        Neighbour.same("ephemerals", raw().getEphemerals(path), List.of(made));
        String other = client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(path + "/p-");
        Neighbour.check(
                "a protected one: " + other, other.startsWith(path + "/_c_") && other.endsWith("-p-0000000004"));
        client.create().withMode(CreateMode.CONTAINER).forPath(path + "/container");
        client.create().withTtl(3_600_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(path + "/ttl");
    }

    private void watches(String path) throws Exception {
        Events events = new Events();
        client.checkExists().usingWatcher(events).forPath(path);
        client.create().forPath(path);
        events.expect(EventType.NodeCreated, path);
        client.getData().usingWatcher(events).forPath(path);
        client.setData().forPath(path, "x".getBytes());
        events.expect(EventType.NodeDataChanged, path);
        client.getChildren().usingWatcher(events).forPath(path);
        client.create().forPath(path + "/child");
        events.expect(EventType.NodeChildrenChanged, path);
        client.getData().usingWatcher(events).forPath(path + "/child");
        client.delete().forPath(path + "/child");
        events.expect(EventType.NodeDeleted, path + "/child");
        client.getData().usingWatcher(events).forPath(path);
        client.watchers().remove(events).ofType(Watcher.WatcherType.Data).forPath(path);
        events.expect(EventType.DataWatchRemoved, path);
        client.setData().forPath(path, "y".getBytes());
        client.checkExists().usingWatcher(events).forPath(path);
        client.delete().forPath(path);
        events.expect(EventType.NodeDeleted, path); // and nothing of the removed one before it
    }

    private void lastingWatches(String path) throws Exception {
        Events events = new Events();
        client.create().forPath(path);
        client.watchers().add().withMode(AddWatchMode.PERSISTENT).usingWatcher((Watcher) events).forPath(path);
        for (int number = 0; number < 3; number++) {
            client.setData().forPath(path);
            events.expect(EventType.NodeDataChanged, path);
        }
        client.create().forPath(path + "/child");
        events.expect(EventType.NodeChildrenChanged, path);
        ZooKeeper raw = raw();
        Neighbour.fails("a recursive one over several ensembles", Code.UNIMPLEMENTED, () -> {
            raw.addWatch(path, event -> {}, AddWatchMode.PERSISTENT_RECURSIVE);
            return null;
        });
    }

    private void transactions(String path) throws Exception {
        client.create().forPath(path);
        List<CuratorOp> done = List.of(
                client.transactionOp().create().forPath(path + "/a", "1".getBytes()),
                client.transactionOp().setData().withVersion(0).forPath(path + "/a", "2".getBytes()),
                client.transactionOp().check().withVersion(1).forPath(path + "/a"),
                client.transactionOp().create().forPath(path + "/b"),
                client.transactionOp().delete().forPath(path + "/b"));
        Neighbour.same("a transaction", client.transaction().forOperations(done).get(1).getResultStat().getVersion(), 1);
        Neighbour.fails("one that fails", Code.BADVERSION, () -> client.transaction().forOperations(
                client.transactionOp().create().forPath(path + "/c"),
                client.transactionOp().check().withVersion(7).forPath(path + "/a")));
        Neighbour.same("nothing of it was done", client.checkExists().forPath(path + "/c"), null);
        across(path);
    }

    /** Transactions of two directories: those of directories on two ensembles are refused whole. */
    private void across(String path) throws Exception {
        int refused = 0;
        for (int number = 0; number < DIRECTORIES; number++) {
            client.create().forPath(path + "/d" + number);
        }
        for (int number = 1; number < DIRECTORIES; number++) {
            List<String> paths = List.of(path + "/d0/with" + number, path + "/d" + number + "/x");
            List<CuratorOp> made = new ArrayList<>();
            for (String each : paths) {
                made.add(client.transactionOp().create().forPath(each));
            }
            boolean isDone = true;
            try {
                client.transaction().forOperations(made);
            } catch (KeeperException error) {
                Neighbour.same("a transaction over ensembles", error.code(), Code.BADARGUMENTS);
                isDone = false;
                refused++;
            }
            for (String each : paths) {
                Neighbour.same("it was done", client.checkExists().forPath(each) != null, isDone);
            }
        }
        Neighbour.check("no transaction over ensembles was refused", refused > 0);
    }

    private void identities(String path) throws Exception {
        CuratorFramework owner = Neighbour.connect(
                CuratorFrameworkFactory.builder().authorization("digest", "java:secret".getBytes()), server);
        owner.create().withACL(Ids.CREATOR_ALL_ACL).forPath(path, "mine".getBytes());
        List<ACL> acl = new ArrayList<>(owner.getACL().forPath(path));
        Neighbour.same("its ACL", acl.get(0).getId().getScheme(), "digest");
        Neighbour.fails("another reads it", Code.NOAUTH, () -> client.getData().forPath(path));
        acl.add(new ACL(ZooDefs.Perms.READ, Ids.ANYONE_ID_UNSAFE));
        owner.setACL().withVersion(0).withACL(acl).forPath(path);
        Neighbour.same("another reads it", Neighbour.text(client.getData().forPath(path)), "mine");
        owner.close();
    }

    /** The ephemerals of a session end with it on all ensembles. */
    private void sessions(String path) throws Exception {
        CuratorFramework other = Neighbour.connect(server);
        client.create().forPath(path);
        Map<String, Events> ended = new HashMap<>();
        for (int number = 0; number < DIRECTORIES; number++) {
            String made = path + "/d" + number + "/e";
            other.create().creatingParentsIfNeeded().withMode(CreateMode.EPHEMERAL).forPath(made);
            Events events = new Events();
            Neighbour.same(
                    "its owner", client.checkExists().usingWatcher(events).forPath(made).getEphemeralOwner(),
                    other.getZookeeperClient().getZooKeeper().getSessionId());
            ended.put(made, events);
        }
        other.close();
        for (Map.Entry<String, Events> each : ended.entrySet()) {
            each.getValue().expect(EventType.NodeDeleted, each.getKey());
        }
    }

    /** What a watch was told. */
    private static final class Events implements Watcher {
        private final BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();

        @Override
        public void process(WatchedEvent event) {
            events.add(event);
        }

        void expect(EventType kind, String path) throws InterruptedException {
            WatchedEvent event = events.poll(Neighbour.WAIT_S, TimeUnit.SECONDS);
            Neighbour.check("no event of " + kind + " " + path, event != null);
            Neighbour.same("an event of " + event.getPath(), event.getType(), kind);
            Neighbour.same("an event's path", event.getPath(), path);
        }
    }
}
