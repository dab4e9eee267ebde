"""docker/ is tried on a real engine. That is too heavy for every run of the tests: see __main__.py."""
