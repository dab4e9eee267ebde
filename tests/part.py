"""One part in a process of its own, as ``python -m tests`` starts it."""

from __future__ import annotations

from tests.handlers import patch_everything_if_asked

if __name__ == "__main__":
    patch_everything_if_asked()
    from tests.runner import main  # after patching

    main()
