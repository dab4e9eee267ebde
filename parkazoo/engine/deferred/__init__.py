"""Deferred writes: the lanes in which they go, and what the client's own operations wait for meanwhile."""
