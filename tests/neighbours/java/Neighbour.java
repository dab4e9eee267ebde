import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.Callable;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.KeeperException;

/** A program in Java on Curator, at a server or a gateway. It checks what it gets, and ends with 1 if that is wrong. */
public final class Neighbour {
    static final int WAIT_S = 120; // for what has to come; nothing is decided by it
    private static final int TIMEOUT_MS = 180_000;

    private Neighbour() {}

    public static void main(String[] arguments) throws Exception {
        try {
            if (arguments.length == 3 && arguments[0].equals("calls")) {
                new Calls(arguments[1], arguments[2]).run();
                new Recipes(arguments[1], arguments[2] + "-recipes").run();
            } else if (arguments.length == 5 && arguments[0].equals("turns")) {
                Turns.take(arguments[1], arguments[2], arguments[3], arguments[4]);
            } else {
                throw new AssertionError("calls HOST:PORT ROOT, or turns HOST:PORT DIRECTORY FILE NAME");
            }
        } catch (Throwable error) {
            error.printStackTrace(System.out);
            System.exit(1);
        }
        System.exit(0); // whatever threads there are
    }

    /** A client that has a session. */
    static CuratorFramework connect(String server) throws InterruptedException {
        return connect(CuratorFrameworkFactory.builder(), server);
    }

    static CuratorFramework connect(CuratorFrameworkFactory.Builder builder, String server)
            throws InterruptedException {
        CuratorFramework client = builder.connectString(server)
                .sessionTimeoutMs(TIMEOUT_MS)
                .connectionTimeoutMs(WAIT_S * 1000)
                .retryPolicy(new RetryForever(100))
                .build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    static void check(String what, boolean holds) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void same(String what, Object found, Object expected) {
        check(what + ": " + found + ", not " + expected, Objects.equals(found, expected));
    }

    /** See that a call ends with an error. */
    static void fails(String what, KeeperException.Code expected, Callable<?> call) throws Exception {
        try {
            same(what, call.call(), expected);
        } catch (KeeperException error) {
            same(what, error.code(), expected);
        }
    }

    /** Wait until it holds. */
    static void until(String what, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + WAIT_S * 1_000_000_000L;
        while (!condition.call()) {
            check("not in time: " + what, System.nanoTime() < end);
            Thread.sleep(10);
        }
    }

    static String text(byte[] data) {
        return data == null ? null : new String(data);
    }

    static String sorted(Iterable<String> names) {
        java.util.List<String> found = new java.util.ArrayList<>();
        names.forEach(found::add);
        String[] all = found.toArray(new String[0]);
        Arrays.sort(all);
        return String.join(" ", all);
    }
}
