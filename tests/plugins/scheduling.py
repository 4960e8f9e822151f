"""Distributes tests over the processes of pytest-xdist: a module at a time, with two exceptions.

Tests that share an expensive set-up belong together: the modules whose machines are one Slurm cluster, and the
Slurm clusters of the contract tests, one for each release. Modules of different folders alternate: those with browsers
and ranks compute, those with daemons and jobs wait. More urgent modules come first.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

URGENCY = pytest.StashKey[dict[str, int]]()
"""By what one process runs: when it begins, the lowest first; 0 where nothing is said."""
_MACHINES = "tests/machines/"
"""The folder whose modules share one cluster of machines."""
_OWN_MACHINES = ("tests/machines/test_ansible.py", "tests/machines/test_standby.py")
"""Its modules that boot machines of their own."""
_SLURM = re.compile(r"tests/contract/schedulers/.*[@\[](?P<release>system|trixie|broker)\b")
_RELEASES = {"trixie": "trixie"}
"""The release by the name of a test's parameter; all others run on this machine's own."""


def group_of(node_id: str) -> str | None:
    """Return the name of the group of tests that one process runs; None for a module by itself."""
    if node_id.startswith(_MACHINES) and not node_id.startswith(_OWN_MACHINES):
        return _MACHINES
    match = _SLURM.match(node_id)
    if match is None:
        return None
    return f"tests/contract/schedulers@{_RELEASES.get(match['release'], 'system')}"


def scope_of(node_id: str) -> str:
    """Return the name of what one process runs: a group of tests or a module."""
    return group_of(node_id) or node_id.partition("::")[0]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spread the equally urgent modules of each folder of ``tests`` evenly; they keep their order."""
    urgency = config.stash.get(URGENCY, {})
    scopes: dict[str, list[pytest.Item]] = {}
    folders: dict[tuple[int, str], list[str]] = {}
    for item in items:
        scope = scope_of(item.nodeid)
        if scope not in scopes:
            folder = urgency.get(scope, 0), "/".join(scope.split("/")[:2])
            folders.setdefault(folder, []).append(scope)
        scopes.setdefault(scope, []).append(item)
    places = {
        scope: (urgent, index / len(modules))
        for (urgent, _), modules in folders.items()
        for index, scope in enumerate(modules)
    }
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
