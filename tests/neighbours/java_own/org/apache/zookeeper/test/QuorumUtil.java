package org.apache.zookeeper.test;

import java.util.ArrayList;
import java.util.List;

/** Stands before ZooKeeper's class of this name: doors instead of servers. */
public class QuorumUtil {
    private final List<PeerStruct> peers = new ArrayList<>();

    /** One of the doors. */
    public static class PeerStruct {
        public int clientPort;
        private Door door;
    }

    /** @param faults how many servers may be down */
    public QuorumUtil(int faults) {
        for (int number = 0; number < 2 * faults + 1; number++) {
            PeerStruct peer = new PeerStruct();
            peer.door = new Door(0);
            peer.clientPort = peer.door.port();
            peers.add(peer);
        }
    }

    /** @param number of the door, from 1 on */
    public PeerStruct getPeer(int number) {
        return peers.get(number - 1);
    }

    public void startAll() {
        for (PeerStruct each : peers) {
            each.door.open();
        }
    }

    public void start(int number) {
        getPeer(number).door.open();
    }

    public void shutdown(int number) {
        getPeer(number).door.shut();
    }

    public void shutdownAll() {
        for (PeerStruct each : peers) {
            each.door.remove();
        }
    }
}
