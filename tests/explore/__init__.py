"""The explorer: production clients over ZooKeeper in memory, in every order of requests, answers and events."""
