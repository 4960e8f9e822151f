"""Options and hooks of the whole test run."""

from __future__ import annotations

import signal

import pytest
import pytest_timeout
from hypothesis import settings
from tests.plugins import scheduling, selection, time_limit
from tests.plugins.results import RealtimeTests, TestResults
from tests.support.requirements import required
from tests.support.shared_platform import (
    fixtures_of_modules,
    platform,
    separate_platform,
    separate_slurm_platform,
    shared_platform,
    shared_slurm_platform,
    slurm_platform,
    slurm_without_shared_platform,
)
from tests.support.slurm import slurm_cluster, slurm_clusters

__all__ = [
    "fixtures_of_modules",
    "platform",
    "separate_platform",
    "separate_slurm_platform",
    "shared_platform",
    "shared_slurm_platform",
    "slurm_cluster",
    "slurm_clusters",
    "slurm_platform",
    "slurm_without_shared_platform",
]

# A busy machine is slow at times; how long an example takes is not what these tests are about.
settings.register_profile("aitne", deadline=None)
settings.load_profile("aitne")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a requirement that does not exist before anything runs; register the project's plugins."""
    required()
    config.pluginmanager.register(scheduling)
    config.pluginmanager.register(selection.SelectedTests(config))
    config.pluginmanager.register(RealtimeTests())
    time_limit.register(config)
    if not hasattr(config, "workerinput"):  # xdist reports to the process that started its workers
        config.pluginmanager.register(TestResults())
    # A shell's background job ignores Ctrl-C, and so would every program that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Restart the time limit after a failure, unless a debugger runs.

    pytest-timeout ends the limit at a failure; teardown and reruns need it again.
    """
    if isinstance(node, pytest.Item) and not node.config.getoption("usepdb"):
        limit = pytest_timeout._get_item_settings(node)
        if limit.timeout:
            node.config.pluginmanager.hook.pytest_timeout_set_timer(item=node, settings=limit)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Accept a folder in which all modules are skipped for printed reasons."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    nothing = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    if nothing and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.OK


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the test run.

    ``--kill-rounds 10`` is the complete run of the fault tests, of which other runs do one round.
    """
    parser.addoption("--kill-rounds", type=int, default=1, help="rounds of kill -9 in tests/fault")
    parser.addoption("--outage-s", type=float, default=20, help="seconds that Slurm is away")
    parser.addoption(
        "--select",
        choices=selection.CHOICES,
        default="all",
        help="core: those of `make test`; changed: of the others, what the change calls for",
    )
