package org.apache.zookeeper.test;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** Stands before ZooKeeper's class of this name: five doors instead of five servers. */
public class QuorumBase extends ClientBase {
    private static final int SERVERS = 5;
    private final List<Door> doors = new ArrayList<>();

    @Override
    public void setUp() throws Exception {
        setUpAll();
        for (int number = 0; number < SERVERS; number++) {
            Door door = new Door(0);
            door.open();
            doors.add(door);
        }
        hostPort = doors.stream().map(Door::address).collect(Collectors.joining(","));
    }

    @Override
    public void tearDown() throws Exception {
        tearDownAll();
        for (Door each : doors) {
            each.remove();
        }
    }
}
