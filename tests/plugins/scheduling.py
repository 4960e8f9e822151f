"""Distributes tests over the processes of pytest-xdist: a module at a time, with two exceptions.

Tests that share an expensive set-up belong together: the machines, of which there is one set, and the Slurm
clusters of the contract tests, one for each release.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

_SHARED = ("tests/machines/",)
"""Folders whose modules share one set-up."""
_SLURM = re.compile(r"tests/contract/schedulers/.*[@\[](?P<release>system|trixie|broker)\b")
_RELEASES = {"trixie": "trixie"}
"""The release by the name of a test's parameter; all others run on this machine's own."""


def group_of(node_id: str) -> str | None:
    """Return the name of the group of tests that one process runs; None for a module by itself."""
    for folder in _SHARED:
        if node_id.startswith(folder):
            return folder
    match = _SLURM.match(node_id)
    if match is None:
        return None
    return f"tests/contract/schedulers@{_RELEASES.get(match['release'], 'system')}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler for ``--dist loadfile``; None leaves any other choice to xdist."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class GroupScheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid) or super()._split_scope(nodeid)

    return GroupScheduling(config, log)
