"""Notebook extension that executes cells on the ranks of a session: ``%load_ext aitne.notebook``.

The magics are those of ``aitne_train.notebook``; here the platform starts and ends the ranks. The
module imports nothing of ipyparallel or Jupyter before the extension is loaded.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register ``%ranks``, ``%%distributed``, ``%push`` and ``%pull``."""
    import os

    from aitne.notebook.session_rank_groups import SessionRanks
    from aitne_train.notebook import magics

    magics.load_magics(shell, SessionRanks(os.environ))
