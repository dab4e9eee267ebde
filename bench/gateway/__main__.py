"""``python -m bench.gateway``"""

import sys

if __name__ == "__main__":
    from bench.gateway.gateway_run import (
        main,  # the programs' processes import this file too, and need nothing of that
    )

    sys.exit(main())
