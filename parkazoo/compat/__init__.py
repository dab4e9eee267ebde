"""What programs written for kazoo, and its recipes, expect of a client."""
