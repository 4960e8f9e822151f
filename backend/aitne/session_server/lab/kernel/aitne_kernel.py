"""Extension of IPython that loads the platform's notebook extension, ``aitne.notebook``.

Runs in every Python kernel of a session, also in environments of users: it imports the standard
library alone and works with old releases of Python. No error of it keeps a kernel from starting:
the magics then say why they do not work.
"""

from __future__ import annotations

import os
import sys
from typing import Any

FOLDER = "AITNE_NOTEBOOK"
_OLDEST = (3, 11)
_LINE, _CELL = ("ranks", "push", "pull"), ("distributed",)


def load_ipython_extension(shell: Any) -> None:
    """Load the notebook extension in the kernel ``shell``. An ``aitne`` in the kernel's own
    environment is preferred to the platform's.
    """
    _leave_environment()
    folder = os.environ.pop(FOLDER, None)
    if folder is not None and folder not in sys.path:
        sys.path.append(folder)
    try:
        if sys.version_info < _OLDEST:
            oldest, own = (".".join(map(str, v)) for v in (_OLDEST, sys.version_info[:2]))
            raise ImportError(f"Python {oldest} or newer is needed, this kernel runs {own}")
        shell.extension_manager.load_extension("aitne.notebook")
    except Exception as error:  # noqa: BLE001 - whatever is installed there
        _define_refusing_magics(shell, f"{type(error).__name__}: {error}")


def _leave_environment() -> None:
    """Remove this module's folder from PYTHONPATH, which programs inherit that the kernel starts."""
    own = os.path.dirname(os.path.abspath(__file__))
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    rest = os.pathsep.join(part for part in path if part != own)
    if rest:
        os.environ["PYTHONPATH"] = rest
    else:
        os.environ.pop("PYTHONPATH", None)


def _define_refusing_magics(shell: Any, reason: str) -> None:
    """Define the magics of the notebook extension so that each says why it does not work."""

    def magic(line: str, cell: str = "") -> None:
        from IPython.core.error import UsageError

        raise UsageError(f"Ranks are not available in this kernel. {reason}")

    for name in _LINE:
        shell.register_magic_function(magic, "line", name)
    for name in _CELL:
        shell.register_magic_function(magic, "cell", name)
