import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;

/** Curator's recipes, each of two clients or more. */
final class Recipes {
    private static final int CLIENTS = 3;
    private static final int ROUNDS = 8;
    private static final int LEASES = 2;

    private final String root;
    private final List<CuratorFramework> clients = new ArrayList<>();

    Recipes(String server, String root) throws InterruptedException {
        this.root = root;
        for (int number = 0; number < CLIENTS; number++) {
            clients.add(Neighbour.connect(server));
        }
    }

    void run() throws Exception {
        locks();
        semaphore();
        leader();
        counters();
        barriers();
        caches();
        queue();
        node();
        clients.forEach(CuratorFramework::close);
    }

    /** What one client does with its number, while the others do the same. */
    private interface Turn {
        void take(CuratorFramework client, int number) throws Exception;
    }

    private void together(Turn turn) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(CLIENTS);
        List<Future<?>> running = new ArrayList<>();
        for (int number = 0; number < CLIENTS; number++) {
            int own = number;
            Callable<Object> taking = () -> {
                turn.take(clients.get(own), own);
                return null;
            };
            running.add(threads.submit(taking));
        }
        for (Future<?> each : running) {
            each.get(2L * Neighbour.WAIT_S, TimeUnit.SECONDS);
        }
        threads.shutdown();
    }

    private void locks() throws Exception {
        exclude("mutex", client -> new InterProcessMutex(client, root + "/mutex"));
        exclude("a writer's lock", client -> new InterProcessReadWriteLock(client, root + "/rw").writeLock());
        exclude("locks together", client -> new InterProcessMultiLock(
                client, List.of(root + "/multi/a", root + "/multi/b", root + "/multi/c")));
        InterProcessReadWriteLock shared = new InterProcessReadWriteLock(clients.get(0), root + "/rw");
        InterProcessReadWriteLock other = new InterProcessReadWriteLock(clients.get(1), root + "/rw");
        shared.readLock().acquire();
        Neighbour.check("two readers", other.readLock().acquire(Neighbour.WAIT_S, TimeUnit.SECONDS));
        other.readLock().release();
        Neighbour.check("a writer beside a reader", !other.writeLock().acquire(0, TimeUnit.SECONDS));
        shared.readLock().release();
    }

    private interface LockOf {
        InterProcessLock make(CuratorFramework client);
    }

    private void exclude(String what, LockOf maker) throws Exception {
        AtomicInteger held = new AtomicInteger();
        together((client, number) -> {
            InterProcessLock lock = maker.make(client);
            for (int round = 0; round < ROUNDS; round++) {
                lock.acquire();
                Neighbour.same(what + ": how many hold it", held.incrementAndGet(), 1);
                client.checkExists().forPath(root); // it takes a while
                held.decrementAndGet();
                lock.release();
            }
        });
    }

    private void semaphore() throws Exception {
        AtomicInteger held = new AtomicInteger();
        together((client, number) -> {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, root + "/semaphore", LEASES);
            for (int round = 0; round < ROUNDS; round++) {
                Lease lease = semaphore.acquire();
                Neighbour.check("leases", held.incrementAndGet() <= LEASES);
                client.checkExists().forPath(root);
                held.decrementAndGet();
                semaphore.returnLease(lease);
            }
        });
    }

    private void leader() throws Exception {
        List<LeaderLatch> latches = new ArrayList<>();
        for (CuratorFramework each : clients) {
            LeaderLatch latch = new LeaderLatch(each, root + "/leader", "latch" + latches.size());
            latch.start();
            latches.add(latch);
        }
        while (!latches.isEmpty()) {
            Neighbour.until("a leader", () -> latches.stream().anyMatch(LeaderLatch::hasLeadership));
            List<LeaderLatch> leaders = new ArrayList<>(latches);
            leaders.removeIf(each -> !each.hasLeadership());
            Neighbour.same("leaders", leaders.size(), 1);
            leaders.get(0).close();
            latches.remove(leaders.get(0));
        }
    }

    private void counters() throws Exception {
        together((client, number) -> {
            DistributedAtomicLong count = new DistributedAtomicLong(client, root + "/atomic", new RetryNTimes(1000, 5));
            for (int round = 0; round < ROUNDS; round++) {
                Neighbour.check("an atomic step", count.increment().succeeded());
            }
        });
        DistributedAtomicLong count = new DistributedAtomicLong(clients.get(0), root + "/atomic", new RetryNTimes(1, 0));
        Neighbour.same("atomic steps", count.get().postValue(), (long) CLIENTS * ROUNDS);
        SharedCount first = new SharedCount(clients.get(0), root + "/shared", 5);
        SharedCount second = new SharedCount(clients.get(1), root + "/shared", 5);
        first.start();
        second.start();
        first.setCount(6);
        Neighbour.until("a shared count", () -> second.getCount() == 6);
        first.close();
        second.close();
    }

    private void barriers() throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(clients.get(0), root + "/barrier");
        barrier.setBarrier();
        CountDownLatch waiting = new CountDownLatch(CLIENTS - 1);
        together((client, number) -> {
            if (number == 0) {
                waiting.await();
                barrier.removeBarrier();
            } else {
                waiting.countDown();
                Neighbour.check(
                        "a barrier", new DistributedBarrier(client, root + "/barrier").waitOnBarrier(
                                Neighbour.WAIT_S, TimeUnit.SECONDS));
            }
        });
        AtomicInteger inside = new AtomicInteger();
        together((client, number) -> {
            DistributedDoubleBarrier both = new DistributedDoubleBarrier(client, root + "/double", CLIENTS);
            inside.incrementAndGet();
            Neighbour.check("a double barrier", both.enter(Neighbour.WAIT_S, TimeUnit.SECONDS));
            Neighbour.same("who is inside", inside.get(), CLIENTS);
            Neighbour.check("a double barrier", both.leave(Neighbour.WAIT_S, TimeUnit.SECONDS));
        });
    }

    @SuppressWarnings("deprecation") // CuratorCache's watch is recursive
    private void caches() throws Exception {
        CuratorFramework client = clients.get(0);
        String path = root + "/cached";
        client.create().creatingParentsIfNeeded().forPath(path + "/a/b", "1".getBytes());
        PathChildrenCache children = new PathChildrenCache(clients.get(1), path, true);
        children.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        TreeCache tree = TreeCache.newBuilder(clients.get(1), path).build();
        tree.start();
        CuratorCache one =
                CuratorCache.build(clients.get(1), path + "/a/b", CuratorCache.Options.SINGLE_NODE_CACHE);
        one.start();
        client.setData().forPath(path + "/a/b", "2".getBytes());
        client.create().forPath(path + "/c", "3".getBytes());
        Neighbour.until("a child", () -> children.getCurrentData(path + "/c") != null);
        Neighbour.until(
                "a grandchild's value", () -> tree.getCurrentData(path + "/a/b") != null
                        && "2".equals(Neighbour.text(tree.getCurrentData(path + "/a/b").getData())));
        Neighbour.until(
                "one value", () -> one.get(path + "/a/b").isPresent()
                        && "2".equals(Neighbour.text(one.get(path + "/a/b").get().getData())));
        client.delete().deletingChildrenIfNeeded().forPath(path + "/a");
        Neighbour.until("they are gone", () -> tree.getCurrentData(path + "/a") == null
                && children.getCurrentData(path + "/a") == null && one.get(path + "/a/b").isEmpty());
        children.close();
        tree.close();
        one.close();
    }

    @SuppressWarnings("deprecation") // it is the queue without a thread
    private void queue() throws Exception {
        List<String> taken = new ArrayList<>();
        together((client, number) -> {
            SimpleDistributedQueue queue = new SimpleDistributedQueue(client, root + "/queue");
            if (number == 0) {
                for (int round = 0; round < ROUNDS; round++) {
                    queue.offer(("item" + round).getBytes());
                }
            } else {
                for (int round = 0; round < ROUNDS / (CLIENTS - 1); round++) {
                    byte[] item = queue.poll(Neighbour.WAIT_S, TimeUnit.SECONDS);
                    synchronized (taken) {
                        taken.add(Neighbour.text(item));
                    }
                }
            }
        });
        Neighbour.same("a queue", Neighbour.sorted(taken), "item0 item1 item2 item3 item4 item5 item6 item7");
    }

    private void node() throws Exception {
        String path = root + "/node";
        PersistentNode node = new PersistentNode(clients.get(0), CreateMode.EPHEMERAL, false, path, "x".getBytes());
        node.start();
        Neighbour.check("a node", node.waitForInitialCreate(Neighbour.WAIT_S, TimeUnit.SECONDS));
        clients.get(1).delete().forPath(path);
        Neighbour.until("it comes back", () -> clients.get(1).checkExists().forPath(path) != null);
        node.close();
        Neighbour.until("it is gone", () -> clients.get(1).checkExists().forPath(path) == null);
    }
}
