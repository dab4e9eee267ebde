"""The children of a directory, copied from one ensemble to another."""
