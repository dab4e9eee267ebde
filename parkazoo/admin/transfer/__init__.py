"""A subtree goes into a file, and from a file into a cluster. Nothing is printed."""
