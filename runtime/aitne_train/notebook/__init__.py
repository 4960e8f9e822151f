"""Notebook extension that executes cells on the ranks of a rank group: ``%load_ext aitne_train.notebook``.

The module imports nothing of ipyparallel or Jupyter before the extension is loaded, and nothing of
torch at all.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register ``%ranks``, ``%%distributed``, ``%push`` and ``%pull``."""
    import os

    from aitne_train.notebook import magics
    from aitne_train.notebook.rank_groups import RankGroups

    magics.load_magics(shell, RankGroups(os.environ))
