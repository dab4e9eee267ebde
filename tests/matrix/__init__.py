"""The tests on each version of Python, and of ZooKeeper, in one table: ``make matrix``."""
