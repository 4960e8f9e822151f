"""Run npm with a Node new enough for the portal: the system's if it is, else the one from PyPI.

PyPI's package has npm's files but its ``npm`` shim does not work, so npm's own program is called.
"""

from __future__ import annotations

import os
import sys

from aitne.supervisor.nodejs_lookup import find_nodejs


def main() -> None:
    """Replace this process by npm with the arguments given."""
    node = find_nodejs()
    # Scripts that npm runs find the same Node first.
    os.environ["PATH"] = f"{node.program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    argv = node.npm_argv(sys.argv[1:])
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
