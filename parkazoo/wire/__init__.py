"""The only sockets and threads: one kazoo client for each ensemble."""
