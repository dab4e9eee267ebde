"""What ParKazooClient costs beside KazooClient, on the same servers at the same time: docs/performance.md."""
