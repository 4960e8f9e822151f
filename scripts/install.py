"""Install packages into this interpreter's environment: ``install.py ARGUMENTS``, those of ``pip install``.

uv does it where it can, which takes a fraction of the time; otherwise pip does.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "backend"))

from aitne.supervisor.uv_package_installation import make_install_command

CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]


def main(arguments: list[str]) -> int:
    """Install the packages; return the exit status."""
    if find_spec("uv") is None:
        # Alone, so that a package index without it leaves everything to pip.
        subprocess.run([*PIP, "--constraint", str(CONSTRAINTS), "uv"], check=False)
    compiled = "--no-compile" not in arguments
    prepared = make_install_command(sys.executable, ["--quiet", *arguments], compiled=compiled)
    if prepared is not None:
        argv, environ = prepared
        if subprocess.run(argv, env=environ, check=False).returncode == 0:
            return 0
        print("uv has failed; trying pip.", file=sys.stderr)
    return subprocess.run([*PIP, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
