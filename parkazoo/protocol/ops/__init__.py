"""The operations of a client: a generator for each call."""
