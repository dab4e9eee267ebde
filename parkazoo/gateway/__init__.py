"""A gateway: speaks ZooKeeper's protocol to programs in any language, and is a ParKazooClient for each of them."""
