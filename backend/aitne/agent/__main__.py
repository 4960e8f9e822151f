"""Entry point ``python -I -m aitne.agent <job dir>``, which the batch script executes."""

from __future__ import annotations

import sys

from aitne.agent.main import main

if __name__ == "__main__":
    main(sys.argv[1:])
