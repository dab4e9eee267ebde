package org.apache.zookeeper.test;

import java.io.File;
import java.io.IOException;
import java.net.ProtocolException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import org.apache.zookeeper.TestableZooKeeper;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZKTestCase;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.FourLetterWordMain;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.BeforeEach;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Stands before ZooKeeper's class of this name, so that its tests use a server behind a door, not one of their own. */
public abstract class ClientBase extends ZKTestCase {
    protected static final Logger LOG = LoggerFactory.getLogger(ClientBase.class);
    public static int CONNECTION_TIMEOUT = 30000;
    private static final int POLL_MS = 20;

    private final Door door = new Door(0);
    protected String hostPort = door.address(); // some tests append a chroot
    protected int maxCnxns = 0;
    protected ServerCnxnFactory serverFactory = null; // whoever looks into the server fails
    protected File tmpDir = null;
    protected boolean exceptionOnFailedConnect = false;
    private final List<ZooKeeper> clients = new ArrayList<>();

    /** A watcher on which a test waits for states of its client. */
    public static class CountdownWatcher implements Watcher {
        volatile CountDownLatch clientConnected = new CountDownLatch(1);
        volatile boolean connected;
        volatile boolean syncConnected;
        volatile boolean readOnlyConnected;

        public synchronized void reset() {
            clientConnected = new CountDownLatch(1);
            see(false, false);
        }

        @Override
        public synchronized void process(WatchedEvent event) {
            Event.KeeperState state = event.getState();
            see(state == Event.KeeperState.SyncConnected, state == Event.KeeperState.ConnectedReadOnly);
            if (connected) {
                clientConnected.countDown();
            }
            notifyAll();
        }

        private void see(boolean both, boolean readOnly) {
            syncConnected = both;
            readOnlyConnected = readOnly;
            connected = both || readOnly;
        }

        public synchronized boolean isConnected() {
            return connected;
        }

        public synchronized void waitForConnected(long timeoutMs) throws InterruptedException, TimeoutException {
            await(() -> connected, timeoutMs, "connected");
        }

        public synchronized void waitForSyncConnected(long timeoutMs) throws InterruptedException, TimeoutException {
            await(() -> syncConnected, timeoutMs, "connected for writes");
        }

        public synchronized void waitForDisconnected(long timeoutMs) throws InterruptedException, TimeoutException {
            await(() -> !connected, timeoutMs, "disconnected");
        }

        private void await(BooleanSupplier condition, long timeoutMs, String what)
                throws InterruptedException, TimeoutException {
            long end = System.nanoTime() + timeoutMs * 1_000_000;
            while (!condition.getAsBoolean()) {
                long leftMs = (end - System.nanoTime()) / 1_000_000;
                if (leftMs <= 0) {
                    throw new TimeoutException("not " + what + " within " + timeoutMs + " ms");
                }
                wait(leftMs);
            }
        }
    }

    /** One address of a list. */
    public static class HostPort {
        String host;
        int port;

        HostPort(String host, int port) {
            this.host = host;
            this.port = port;
        }
    }

    @BeforeEach
    public void setUp() throws Exception {
        setUpWithServerId(1);
    }

    protected void setUpWithServerId(int id) throws Exception {
        setupCustomizedEnv();
        setUpAll();
        door.open();
        tmpDir = createTmpDir();
    }

    protected void setUpAll() throws Exception {
        clients.clear();
    }

    @AfterEach
    public void tearDown() throws Exception {
        tearDownAll();
        door.remove();
        recursiveDelete(tmpDir);
        cleanUpCustomizedEnv();
    }

    protected void tearDownAll() throws Exception {
        for (ZooKeeper each : clients) {
            each.close();
        }
        clients.clear();
    }

    public void setupCustomizedEnv() {
    }

    public void cleanUpCustomizedEnv() {
    }

    public static void setupTestEnv() {
    }

    protected void startServer() throws Exception {
        door.open();
    }

    protected void stopServer() throws Exception {
        door.shut();
    }

    protected TestableZooKeeper createClient() throws IOException, InterruptedException {
        return createClient(hostPort);
    }

    protected TestableZooKeeper createClient(String server) throws IOException, InterruptedException {
        return createClient(new CountdownWatcher(), server);
    }

    protected TestableZooKeeper createClient(String server, int timeoutMs) throws IOException, InterruptedException {
        return createClient(new CountdownWatcher(), server, timeoutMs);
    }

    protected TestableZooKeeper createClient(CountdownWatcher watcher) throws IOException, InterruptedException {
        return createClient(watcher, hostPort);
    }

    protected TestableZooKeeper createClient(CountdownWatcher watcher, String server)
            throws IOException, InterruptedException {
        return createClient(watcher, server, CONNECTION_TIMEOUT);
    }

    protected TestableZooKeeper createClient(CountdownWatcher watcher, String server, int timeoutMs)
            throws IOException, InterruptedException {
        watcher.reset();
        TestableZooKeeper zk = new TestableZooKeeper(server, timeoutMs, watcher);
        clients.add(zk);
        try {
            watcher.waitForConnected(timeoutMs);
        } catch (TimeoutException late) {
            if (exceptionOnFailedConnect) {
                throw new ProtocolException(late.getMessage());
            }
            Assertions.fail(late);
        }
        return zk;
    }

    public static ZooKeeper createZKClient(String server) throws Exception {
        return createZKClient(server, CONNECTION_TIMEOUT);
    }

    public static ZooKeeper createZKClient(String server, int timeoutMs) throws IOException {
        return createZKClient(server, timeoutMs, CONNECTION_TIMEOUT);
    }

    public static ZooKeeper createZKClient(String server, int timeoutMs, long patienceMs) throws IOException {
        return createZKClient(server, timeoutMs, patienceMs, new ZKClientConfig());
    }

    public static ZooKeeper createZKClient(String server, int timeoutMs, long patienceMs, ZKClientConfig config)
            throws IOException {
        CountdownWatcher watcher = new CountdownWatcher();
        ZooKeeper zk = new ZooKeeper(server, timeoutMs, watcher, config);
        try {
            watcher.waitForConnected(patienceMs);
        } catch (InterruptedException | TimeoutException late) {
            Assertions.fail(late);
        }
        return zk;
    }

    public static boolean waitForServerUp(String server, long timeoutMs) {
        return waitFor(() -> answersStat(server), timeoutMs);
    }

    public static boolean waitForServerDown(String server, long timeoutMs) {
        return waitFor(() -> !answersStat(server), timeoutMs);
    }

    private static boolean waitFor(BooleanSupplier condition, long timeoutMs) {
        long end = System.nanoTime() + timeoutMs * 1_000_000;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                return false;
            }
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException interrupted) {
                return false;
            }
        }
        return true;
    }

    public static List<HostPort> parseHostPortList(String servers) {
        List<HostPort> parsed = new ArrayList<>();
        for (String each : servers.split(",")) {
            String[] parts = each.split(":");
            parsed.add(new HostPort(parts[0], Integer.parseInt(parts[1])));
        }
        return parsed;
    }

    private static boolean answersStat(String servers) {
        HostPort first = parseHostPortList(servers).get(0);
        try {
            String said = FourLetterWordMain.send4LetterWord(first.host, first.port, "stat");
            return said.startsWith("Zookeeper version:");
        } catch (Exception nobody) {
            return false;
        }
    }

    protected static String getHexSessionId(long id) {
        return "0x" + Long.toHexString(id);
    }

    public static File createTmpDir() throws IOException {
        testBaseDir.mkdirs();
        return Files.createTempDirectory(testBaseDir.toPath(), "test").toFile();
    }

    public static boolean recursiveDelete(File folder) {
        return TestUtils.deleteFileRecursively(folder, true);
    }
}
