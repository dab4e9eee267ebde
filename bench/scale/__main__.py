"""``python -m bench.scale``"""

import sys

from bench.scale.program import main

if __name__ == "__main__":
    sys.exit(main())
