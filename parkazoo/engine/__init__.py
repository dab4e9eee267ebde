"""One client's operations and session, over members that are handed in."""
