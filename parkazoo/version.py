"""ParKazoo's version: in a file of its own, because setuptools reads it without importing the package."""

__version__ = "0.1.0"
