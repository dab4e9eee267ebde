"""The checker of histories, proved against porcupine: see corpus.py and __main__.py."""
