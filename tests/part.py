"""One part in a process of its own, as ``python -m tests`` starts it."""

from __future__ import annotations

import signal

from tests.handlers import patch_everything_if_asked

if __name__ == "__main__":
    # A shell that runs this in the background has it ignored, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    patch_everything_if_asked()
    from tests.runner import main  # after patching

    main()
