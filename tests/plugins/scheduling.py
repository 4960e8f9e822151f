"""Distributes tests over the processes of pytest-xdist: a module at a time, with two exceptions.

Tests that share an expensive set-up belong together: the machines, of which there is one set, and the Slurm
clusters of the contract tests, one for each release. Modules that mostly wait for other processes alternate
with modules that compute, so that a few processes use all processors.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

_SHARED = ("tests/machines/",)
"""Folders whose modules share one set-up."""
_WAITING = (
    "tests/smoke/",
    "tests/contract/schedulers",
    "tests/e2e/",
    "tests/machines/",
    "tests/fault/",
    "tests/integration/",
)
"""Folders whose tests wait for browsers, daemons and jobs most of the time."""
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


def scope_of(node_id: str) -> str:
    """Return the name of what one process runs: a group of tests or a module."""
    return group_of(node_id) or node_id.partition("::")[0]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the modules that wait evenly over those that compute; each kind keeps its order."""
    scopes: dict[str, list[pytest.Item]] = {}
    for item in items:
        scopes.setdefault(scope_of(item.nodeid), []).append(item)
    places: dict[str, float] = {}
    for waits in (True, False):
        kind = [scope for scope in scopes if scope.startswith(_WAITING) is waits]
        places |= {scope: index / len(kind) for index, scope in enumerate(kind)}
    items[:] = [item for scope in sorted(places, key=places.__getitem__) for item in scopes[scope]]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler for ``--dist loadfile``; None leaves any other choice to xdist."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class GroupScheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return GroupScheduling(config, log)
