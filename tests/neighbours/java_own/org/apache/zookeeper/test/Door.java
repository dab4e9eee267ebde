package org.apache.zookeeper.test;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A port that leads to one of the servers in the property {@code servers} while it is open. It begins shut: then clients
 * see a server that is down.
 */
final class Door {
    private static final int BACKLOG = 50;
    private static final int PART_BYTES = 1 << 16;
    private static final AtomicInteger MADE = new AtomicInteger();
    private static final AtomicLong ANSWERED = new AtomicLong();

    private final String target = target(MADE.getAndIncrement());
    private final Set<Socket> sockets = new HashSet<>();
    private final Socket held = new Socket(); // nobody else gets the port meanwhile
    private ServerSocket listening;

    /** @param port where it listens when it is open; if 0, it chooses one */
    Door(int port) {
        try {
            held.setReuseAddress(true);
            held.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Server number {@code number}, as if they were endless. */
    static String target(int number) {
        String[] servers = System.getProperty("servers").split(",");
        return servers[number % servers.length];
    }

    /** The bytes that servers have answered since {@link #forget}, through all doors. */
    static long answered() {
        return ANSWERED.get();
    }

    static void forget() {
        ANSWERED.set(0);
    }

    int port() {
        return held.getLocalPort();
    }

    String address() {
        return "127.0.0.1:" + port();
    }

    synchronized void open() {
        if (listening != null) {
            return;
        }
        try {
            ServerSocket own = new ServerSocket(port(), BACKLOG, InetAddress.getLoopbackAddress());
            start(() -> take(own));
            listening = own;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    synchronized void shut() {
        if (listening != null) {
            close(listening);
            listening = null;
        }
        for (Socket each : sockets) {
            close(each);
        }
        sockets.clear();
    }

    void remove() {
        shut();
        close(held);
    }

    private void take(ServerSocket own) {
        try {
            while (true) {
                join(own, own.accept());
            }
        } catch (IOException shut) {
            // nobody comes any more
        }
    }

    private synchronized void join(ServerSocket own, Socket client) throws IOException {
        String[] address = target.split(":");
        Socket server = new Socket();
        try {
            if (own != listening) {
                throw new IOException("the door is shut");
            }
            server.connect(new InetSocketAddress(address[0], Integer.parseInt(address[1])));
        } catch (IOException down) {
            close(client);
            close(server);
            return;
        }
        for (Socket each : List.of(client, server)) {
            each.setTcpNoDelay(true);
            sockets.add(each);
        }
        start(() -> pass(client, server, new AtomicLong()));
        start(() -> pass(server, client, ANSWERED));
    }

    private void pass(Socket from, Socket to, AtomicLong bytes) {
        byte[] part = new byte[PART_BYTES];
        try (Socket left = from; Socket right = to) {
            InputStream input = left.getInputStream();
            OutputStream output = right.getOutputStream();
            for (int read = input.read(part); read >= 0; read = input.read(part)) {
                output.write(part, 0, read);
                bytes.addAndGet(read);
            }
        } catch (IOException ended) {
            // by either side
        }
        synchronized (this) {
            sockets.remove(from);
            sockets.remove(to);
        }
    }

    private static void close(Closeable socket) {
        try {
            socket.close();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void start(Runnable run) {
        Thread thread = new Thread(run, "door");
        thread.setDaemon(true);
        thread.start();
    }
}
