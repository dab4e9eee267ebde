"""What ParKazooClient costs beside KazooClient, on the same servers and in turn: docs/design/performance.md."""
