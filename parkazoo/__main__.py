"""``python -m parkazoo``: the command ``parkazoo``, where it is not on PATH."""

from parkazoo.cli import main

main()
