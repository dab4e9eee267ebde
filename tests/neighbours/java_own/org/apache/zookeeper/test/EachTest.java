package org.apache.zookeeper.test;

import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Gives each test an empty tree, and fails it if no server has answered it. */
public final class EachTest implements BeforeEachCallback, AfterEachCallback {
    private static final String SUPER = "super:test"; // the password that AuthTest has too

    @Override
    public void beforeEach(ExtensionContext context) throws Exception {
        ZooKeeper zk = ClientBase.createZKClient(Door.target(0));
        try {
            zk.addAuthInfo("digest", SUPER.getBytes());
            zk.setACL("/", Ids.OPEN_ACL_UNSAFE, -1);
            empty(zk, "/");
        } finally {
            zk.close();
        }
        Door.forget();
    }

    @Override
    public void afterEach(ExtensionContext context) {
        Assertions.assertTrue(Door.answered() > 0, "no server has answered this test");
    }

    private static void empty(ZooKeeper zk, String path) throws Exception {
        for (String name : zk.getChildren(path, false)) {
            if (!path.equals("/") || !name.equals("zookeeper")) {
                String child = path.equals("/") ? "/" + name : path + "/" + name;
                try {
                    empty(zk, child);
                    zk.delete(child, -1);
                } catch (KeeperException.NoNodeException gone) {
                    // an ephemeral, with its session
                }
            }
        }
    }
}
