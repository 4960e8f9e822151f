"""A fleet with a Slurm cluster for all tests of this folder, which leave it unchanged."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.machines import platform as on_portal
from tests.machines import slurm
from tests.machines.fleet import Fleet
from tests.support.requirements import lacking

CLUSTER = pytest.StashKey[slurm.SlurmCluster]()
PLATFORM = pytest.StashKey[on_portal.MachinesPlatform]()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[slurm.SlurmCluster]:
    """The machines `portal`, `n1` and `n2` with Slurm; every node is idle."""
    if os.geteuid() != 0:
        lacking("machines", "only root can boot machines")
    with Fleet() as fleet:
        running = slurm.set_up(fleet)
        request.config.stash[CLUSTER] = running
        yield running
        del request.config.stash[CLUSTER]


@pytest.fixture(scope="session")
def platform(
    cluster: slurm.SlurmCluster, request: pytest.FixtureRequest
) -> Iterator[on_portal.MachinesPlatform]:
    """Aitne on the cluster's portal, with accounts for alice and bob."""
    running = on_portal.set_up(cluster)
    request.config.stash[PLATFORM] = running
    yield running
    del request.config.stash[PLATFORM]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Show with a failed test what machines, Slurm and platform have to say about it."""
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    cluster = item.config.stash.get(CLUSTER, None)
    if cluster is not None:
        report.sections.append(("machines", f"{cluster.report()}\n{cluster.fleet.consoles()}"))
    platform = item.config.stash.get(PLATFORM, None)
    if platform is not None:
        report.sections.append(("platform", platform.logs()))
