"""``python -m bench.client``"""

import sys

if __name__ == "__main__":
    from bench.client.run import main  # the processes of sides import this file too, and need nothing of that

    sys.exit(main())
