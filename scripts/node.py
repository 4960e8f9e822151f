"""Run a program of the portal's packages with a Node that is new enough."""

from __future__ import annotations

import os
import sys

from aitne.supervisor.nodejs_lookup import find_nodejs


def main() -> None:
    """Replace this process by Node with the arguments given."""
    program = str(find_nodejs().program)
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
