"""Start of the broker: ``python -m aitne.broker --config FILE``."""

import sys

from aitne.broker.main import main

if __name__ == "__main__":
    sys.exit(main())
