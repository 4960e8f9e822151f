"""A running platform that serves the modules of a pytest process one after the other.

Each module gets it without the jobs, credentials, preferences and files of the modules before; of
users, projects and the audit log the API removes nothing, so these remain. A module that kills processes,
restarts the platform, counts such things or needs settings of its own has a separate platform.
"""

from __future__ import annotations

import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from aitne.client import Client
from aitne.core.errors import AitneError
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne_devcluster.plan import ReleaseName
from tests.support.platform import RunningPlatform, on_cluster, run_platform
from tests.support.waiting import eventually


@dataclass(frozen=True)
class _Start:
    """State of a platform that has just started."""

    platform: RunningPlatform
    pids: Mapping[str, int]
    config: str
    home: frozenset[Path]
    tokens: frozenset[str]

    @classmethod
    def of(cls, platform: RunningPlatform) -> _Start:
        tokens = Client(platform.url, platform.token).tokens.list()
        return cls(
            platform,
            platform.pids(),
            _config_of(platform),
            frozenset(platform.home.iterdir()),
            frozenset(token.id for token in tokens),
        )

    def restore(self) -> None:
        """Remove what a module left, and check that processes and settings are those of the start."""
        client = Client(self.platform.url, self.platform.token)
        _delete_jobs(client)
        self._remove_credentials(client)
        for dataset in client.datasets.list():
            client.datasets.retire(dataset.reference)
        for key in ("portal", "job_views", "last_launch", "templates"):
            client.preferences.put(key, {})
        for path in set(self.platform.home.iterdir()) - self.home:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert self.platform.pids() == self.pids, "processes were replaced"
        assert _config_of(self.platform) == self.config, "settings were changed"
        assert self.platform.ready(), "it is not ready"

    def _remove_credentials(self, client: Client) -> None:
        for user in client.users.list():
            for token in client.tokens.list(user=user.name):
                if token.id not in self.tokens:
                    httpx.delete(
                        f"{self.platform.url}/api/v1/tokens/{token.id}",
                        params={"user": user.name},
                        headers={"Authorization": f"Bearer {self.platform.token}"},
                        trust_env=False,
                    ).raise_for_status()
        for secret in client.secrets.list():
            client.secrets.delete(secret.name)
        for webhook in client.webhooks.list():
            client.webhooks.delete(webhook.id)
        client.account.revoke_all_sign_ins()


class SharedPlatform:
    """A platform that is started for the first module that needs it.

    Args:
        make: returns a platform that is not started yet.
    """

    def __init__(self, make: Callable[[], RunningPlatform]) -> None:
        self._make = make
        self._running = ExitStack()
        self._start: _Start | None = None

    @contextmanager
    def lend(self) -> Iterator[RunningPlatform]:
        """Yield the running platform; stop it afterwards if what was done to it cannot be undone."""
        if self._start is None:
            self._start = _Start.of(self._running.enter_context(run_platform(self._make())))
        try:
            yield self._start.platform
        finally:
            try:
                self._start.restore()
            except (AitneError, AssertionError, OSError, httpx.HTTPError) as error:
                sys.stderr.write(f"The shared platform is stopped: {error}\n")
                self.stop()

    def stop(self) -> None:
        """Stop the platform if it runs; the next module starts another one."""
        self._start = None
        self._running.close()


def _delete_jobs(client: Client) -> None:
    """Cancel all jobs of the platform that have not ended, and delete all."""
    where = {"origin": "platform", "top_level": True}
    live = [job.id for job in client.jobs.list(live=True, **where)]
    if live:
        client.jobs.cancel_many(live)

    def delete() -> bool:
        ended = [job.id for job in client.jobs.list(**where) if job.ended]
        if ended:
            client.jobs.delete_many(ended)
        return not any(client.jobs.list(**where))

    eventually("all jobs are deleted", delete, poll_s=0.2)


def _config_of(platform: RunningPlatform) -> str:
    """Return the text of the settings file; empty without one."""
    file = platform.data_dir / "aitne.toml"
    return file.read_text() if file.exists() else ""


@pytest.fixture(scope="session")
def shared_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedPlatform]:
    """The shared platform with this machine's local scheduler and a domain for each user."""
    shared = SharedPlatform(
        lambda: RunningPlatform(tmp_path_factory.mktemp("platform"), domain="localhost")
    )
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def shared_slurm_platform(
    tmp_path_factory: pytest.TempPathFactory,
    slurm_clusters: Callable[[ReleaseName], DevCluster],
) -> Iterator[SharedPlatform]:
    """The shared platform on this machine's Slurm."""
    shared = SharedPlatform(
        lambda: on_cluster(tmp_path_factory.mktemp("platform"), slurm_clusters("system"))
    )
    yield shared
    shared.stop()


@pytest.fixture(scope="module")
def platform(shared_platform: SharedPlatform) -> Iterator[RunningPlatform]:
    """The shared platform for the tests of one module, which only use it."""
    with shared_platform.lend() as running:
        yield running


@pytest.fixture(scope="module")
def slurm_platform(shared_slurm_platform: SharedPlatform) -> Iterator[RunningPlatform]:
    """The shared platform on a real Slurm for the tests of one module, which only use it."""
    with shared_slurm_platform.lend() as running:
        yield running


@pytest.fixture(scope="module")
def separate_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform with the defaults for the tests of one module, which may do anything to it."""
    with run_platform(RunningPlatform(tmp_path_factory.mktemp("platform"))) as running:
        yield running


@pytest.fixture(scope="module")
def separate_slurm_platform(
    tmp_path_factory: pytest.TempPathFactory,
    slurm_cluster: DevCluster,
    shared_slurm_platform: SharedPlatform,
) -> Iterator[RunningPlatform]:
    """A platform on a real Slurm for the tests of one module, which may do anything to it."""
    shared_slurm_platform.stop()
    with run_platform(on_cluster(tmp_path_factory.mktemp("platform"), slurm_cluster)) as running:
        yield running


@pytest.fixture(scope="session")
def fixtures_of_modules(request: pytest.FixtureRequest) -> Mapping[pytest.Module, set[str]]:
    """The names of all fixtures that the tests of each module use."""
    names: dict[pytest.Module, set[str]] = defaultdict(set)
    for item in request.session.items:
        module = item.getparent(pytest.Module)
        if module is not None and isinstance(item, pytest.Function):
            names[module].update(item.fixturenames)
    return names


@pytest.fixture(scope="module", autouse=True)
def slurm_without_shared_platform(
    request: pytest.FixtureRequest, fixtures_of_modules: Mapping[pytest.Module, set[str]]
) -> None:
    """Stop the shared platform on Slurm before a module that uses the cluster in another way."""
    names = fixtures_of_modules.get(request.node, set())
    if "slurm_clusters" in names and "shared_slurm_platform" not in names:
        request.getfixturevalue("shared_slurm_platform").stop()
