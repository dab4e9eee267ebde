package org.apache.zookeeper.test;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import org.apache.zookeeper.server.ServerCnxn;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** Opens a door where a test starts a server of its own. The property {@code zookeeper.serverCnxnFactory} names it. */
public final class DoorFactory extends ServerCnxnFactory {
    private InetSocketAddress address;
    private Door door;

    @Override
    public void configure(InetSocketAddress where, int connections, int backlog, boolean secure) {
        address = where;
    }

    @Override
    public void startup(ZooKeeperServer server, boolean start) {
        door = new Door(address.getPort());
        door.open();
    }

    @Override
    public void shutdown() {
        door.remove();
    }

    @Override
    public int getLocalPort() {
        return address.getPort();
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return address;
    }

    @Override
    public Iterable<ServerCnxn> getConnections() {
        return List.of();
    }

    @Override
    public Iterable<Map<String, Object>> getAllConnectionInfo(boolean brief) {
        return List.of();
    }

    @Override
    public int getMaxClientCnxnsPerHost() {
        return 0;
    }

    @Override
    public int getSocketListenBacklog() {
        return 0;
    }

    @Override
    public void setMaxClientCnxnsPerHost(int most) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void reconfigure(InetSocketAddress where) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void closeAll(ServerCnxn.DisconnectReason reason) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean closeSession(long session, ServerCnxn.DisconnectReason reason) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void resetAllConnectionStats() {
        throw new UnsupportedOperationException();
    }

    @Override
    public void start() {
    }

    @Override
    public void join() {
    }
}
