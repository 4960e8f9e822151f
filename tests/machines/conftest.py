"""One fleet with a Slurm cluster on it for all tests of this folder; they leave it as they found it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.machines import slurm
from tests.machines.fleet import Fleet

RUNNING = pytest.StashKey[slurm.SlurmCluster]()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[slurm.SlurmCluster]:
    """``portal``, ``n1`` and ``n2``, every node idle."""
    if os.geteuid() != 0:
        if "machines" in os.environ.get("AITNE_REQUIRE", "").split(","):
            pytest.fail("AITNE_REQUIRE has machines, and only root can boot machines.")
        pytest.skip("only root can boot machines")
    with Fleet() as fleet:
        running = slurm.set_up(fleet)
        request.config.stash[RUNNING] = running
        yield running
        del request.config.stash[RUNNING]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Show with a failed test what the machines and Slurm have to say about it."""
    outcome = yield
    report = outcome.get_result()
    running = item.config.stash.get(RUNNING, None)
    if report.failed and running is not None:
        report.sections.append(("machines", f"{running.report()}\n{running.fleet.consoles()}"))
