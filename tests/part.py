"""One part in a process of its own, as ``python -m tests`` starts it."""

from __future__ import annotations

import gc
import signal

from tests.handlers import patch_everything_if_asked

if __name__ == "__main__":
    # A shell that runs this in the background has it ignored, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(50_000, 20, 50)  # collections are seldom: explored clients take an eighth less
    patch_everything_if_asked()
    from tests.runner import main  # after patching

    main()
