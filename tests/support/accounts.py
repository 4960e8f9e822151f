"""The local scheduler in a broker of root, with Unix users of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.broker import BrokerBench, unix_users

NODES = 2
CPUS = 2
MEMORY = 4 << 30
GPUS = 2
GPU_TYPE = "a100"
CLUSTER = (
    f'[local]\nnodes = {NODES}\ncpus = {CPUS}\nmemory = {MEMORY}\ngpus = "{GPU_TYPE}:{GPUS}"\n'
)


class AccountsBench(BrokerBench):
    """A broker that holds ``local``, and its jobs' folders."""

    def __init__(self, users: dict[str, str]) -> None:
        super().__init__(users, scheduler="local")
        self.state = self.root / "state" / "local"
        self.write_config(top=f'state_dir = "{self.state.parent}"\n', more=CLUSTER)

    def start(self, module: str = "aitne.broker") -> None:
        """Start it and wait until it serves."""
        super().start(module)

    def run_dir(self, number: str, run: int = 0) -> Path:
        """Return the scheduler's folder of one run of a job."""
        return self.state / "jobs" / number / "task" / f"run-{run}"


@contextmanager
def accounts_bench() -> Iterator[AccountsBench]:
    """Run a broker with the local scheduler and two accounts during the block."""
    with unix_users() as users:
        bench = AccountsBench(users)
        try:
            bench.start()
            yield bench
        finally:
            bench.stop()
