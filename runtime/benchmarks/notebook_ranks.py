"""A cell on ranks beside ipyparallel's own, a push of 256 MB, and the output of 64 ranks."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aitne_train.notebook import rank_group_connection_files
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError
from benchmarks.stats import Estimate, median, median_ratio

NAME = "notebook_ranks"
RANKS, MANY, LINES = 4, 64, 1000
_PUSHED = 256 << 20
_READY_S = 300.0


def measure(*, quick: bool) -> Figure:
    """Both kinds of cell in turn, in the same shell, with the same controller and engines."""
    if find_spec("ipyparallel") is None:
        raise BenchmarkError("it needs ipyparallel: pip install 'aitne[notebook]'")
    rounds = 20 if quick else 100
    with _ranks(RANKS) as folder, _shell(folder) as shell:
        cells = _cells(shell, folder, rounds)
        pushes, copies = _pushes(shell, 2 if quick else 5)
    with _ranks(MANY) as folder:
        complete, output_s = _output(folder)
    rows = [
        Row("%%distributed over %%px, a cell of pass", "x", median_ratio(cells), 1.2),
        Row("%%distributed, a cell of pass", "ms", median([own * 1e3 for own, _ in cells]), 30),
        Row("%%px, a cell of pass", "ms", median([other * 1e3 for _, other in cells])),
        Row("%push of 256 MiB", "s", median(pushes)),
        Row(
            "%push of 256 MiB over a copy in memory",
            "x",
            median_ratio(list(zip(pushes, copies, strict=True))),
        ),
        Row(
            f"ranks of {MANY} whose {LINES} lines are complete and in order",
            "",
            _exact(complete),
            least=MANY,
        ),
        Row(f"{LINES} lines of each of {MANY} ranks", "s", _exact(output_s)),
    ]
    return Figure(
        NAME,
        f"Cells on {RANKS} ranks of one node",
        rows,
        [
            "One shell, one controller and the same engines with CURVE keys; a cell of each kind in turn, after five of "
            "each. `%%px` streams its output, as it does without options.",
            f"The array of 256 MiB goes once to the controller and from there to {RANKS} engines.",
            f"{MANY} ranks without torch print at once; the time is from the start of the cell to its last line.",
        ],
    )


@contextlib.contextmanager
def _ranks(count: int) -> Iterator[Path]:
    """Run as many ranks on this machine; yields the folder of their group."""
    with TemporaryDirectory(prefix="aitne-bench-") as root:
        folder = Path(root) / "group"
        launcher = (sys.executable, "-m", "aitne_train.launcher", "-np", str(count))
        engine = (sys.executable, "-m", "aitne_train.notebook.engine")
        process = subprocess.Popen(
            [*launcher, "--network-interface", "lo", *engine],
            env={
                **os.environ,
                rank_group_connection_files.FOLDER: str(folder),
                "OMP_NUM_THREADS": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            rank_group_connection_files.wait_for_file(
                folder, rank_group_connection_files.CLIENT, _READY_S
            )
            yield folder
        except rank_group_connection_files.ConnectionFilesError as error:
            raise BenchmarkError(str(error)) from error
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@contextlib.contextmanager
def _shell(folder: Path) -> Iterator[Any]:
    """Open a shell whose magics use the ranks."""
    from IPython.core.interactiveshell import InteractiveShell

    os.environ[rank_group_connection_files.FOLDER] = str(folder)
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "aitne_train.notebook")
    try:
        yield shell
    finally:
        shell.aitne_ranks._detach_group()
        InteractiveShell.clear_instance()
        del os.environ[rank_group_connection_files.FOLDER]


def _cells(shell: Any, folder: Path, rounds: int) -> list[tuple[float, float]]:
    import ipyparallel

    client = ipyparallel.Client(
        rank_group_connection_files.read_file(folder, rank_group_connection_files.CLIENT)
    )
    client.wait_for_engines(RANKS, interactive=False)
    view = client[:]
    view.block = True
    view.activate()

    def own() -> None:
        shell.run_cell_magic("distributed", "", "pass")

    def other() -> None:
        shell.run_cell_magic("px", "", "pass")

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for _ in range(5):
                own()
                other()
            return [(_timed(own), _timed(other)) for _ in range(rounds)]
    finally:
        client.close()


def _pushes(shell: Any, rounds: int) -> tuple[list[float], list[float]]:
    content = bytearray(os.urandom(1 << 20) * (_PUSHED >> 20))
    shell.user_ns["content"] = content
    pushes = [_timed(lambda: shell.run_line_magic("push", "content")) for _ in range(rounds)]
    copies = [_timed(lambda: bytes(content)) for _ in range(rounds)]
    return pushes, copies


def _output(folder: Path) -> tuple[int, float]:
    """Return how many ranks' lines were complete and in order, and how long the cell took."""
    from aitne_train.notebook.cell import DistributedCell
    from aitne_train.notebook.display import CellDisplay, Screen
    from aitne_train.notebook.rank_groups import RankGroup

    class Recorded(Screen):
        def __init__(self) -> None:
            self.lines: list[str] = []

        def write(self, stream: str, text: str) -> None:
            self.lines += text.splitlines()

    screen = Recorded()
    group = RankGroup(folder)
    code = f"import os\nfor number in range({LINES}): print('rank', os.environ['RANK'], 'line', number)"
    cell = DistributedCell(group.link, code, group.ranks, CellDisplay(group.ranks, screen))
    seconds = _timed(cell.run)
    group.close()
    found: dict[str, list[str]] = {}
    for line in screen.lines:
        label, _, text = line.partition(" ")
        found.setdefault(label, []).append(text)
    wanted = {
        f"[{rank}]": [f"rank {rank} line {number}" for number in range(LINES)]
        for rank in range(MANY)
    }
    return sum(found.get(label) == lines for label, lines in wanted.items()), seconds


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value, 1)
