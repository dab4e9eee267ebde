"""Where znodes are, as one client knows it, and how it finds that out."""
