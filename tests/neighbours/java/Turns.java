import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.zookeeper.KeeperException;

/** A lock that programs in several languages share. */
final class Turns {
    private Turns() {}

    /** Take the lock again and again until the input ends, and write each time into the file when it is held. */
    static void take(String server, String directory, String file, String name) throws Exception {
        CuratorFramework client = Neighbour.connect(server);
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        Thread reader = new Thread(Turns::readAll);
        reader.start();
        while (reader.isAlive()) {
            InterProcessMutex mutex = new InterProcessMutex(client, directory);
            try {
                mutex.acquire();
            } catch (KeeperException.ConnectionLossException lost) {
                continue; // Curator deletes its znode
            }
            write(file, name + " in\n");
            client.checkExists().forPath(directory); // it takes a while
            write(file, name + " out\n");
            try {
                mutex.release();
            } catch (KeeperException.ConnectionLossException lost) {
                continue; // the same
            }
            Neighbour.same("its session", client.getZookeeperClient().getZooKeeper().getSessionId(), session);
        }
        client.close();
    }

    private static void readAll() {
        try {
            System.in.readAllBytes();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static void write(String file, String line) throws java.io.IOException {
        Files.write(Path.of(file), line.getBytes(StandardCharsets.UTF_8), StandardOpenOption.APPEND);
    }
}
