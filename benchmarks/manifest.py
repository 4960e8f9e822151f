"""Time of comparing files with their manifest, compared with sha256sum on as many cores."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from aitne.client.file_hashing import count_cpus
from aitne.client.manifests import make, verify
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError
from benchmarks.stats import median, median_ratio

NAME = "manifest"
AT_MOST = 1.1
_PER_FOLDER = 500


@dataclass(frozen=True, slots=True)
class Files:
    """One dataset of the benchmark."""

    name: str
    count: int
    size_bytes: int

    @property
    def per_process(self) -> int:
        """The files for each process of the reference; few enough that no process idles long at the end."""
        return max(1, min(512, self.count // (8 * count_cpus())))


def measure(*, quick: bool) -> Figure:
    """Measure both ways in turn, for each dataset; the files are in the page cache."""
    pairs = 7 if quick else 25
    sets = [Files("small files", 20_000, 16 << 10), Files("large files", 8, 256 << 20)]
    rows: list[Row] = []
    for files in sets:
        with TemporaryDirectory(prefix="aitne-bench-") as name:
            rows += _compare(files, Path(name), pairs)
    version = subprocess.run(["sha256sum", "--version"], capture_output=True, text=True, check=True)
    small, large = sets
    return Figure(
        NAME,
        "A dataset's verification over sha256sum",
        rows,
        [
            f"Small files: {small.count} of {small.size_bytes >> 10} KiB. Large files: {large.count} of "
            f"{large.size_bytes >> 20} MiB. All in the page cache; {count_cpus()} threads, and as many "
            "processes of the others by `xargs -0 -P`, which get the files' names ready made.",
            "Ours is all of `aitne.client.manifests.verify`: reading the manifest, listing the folder, "
            "hashing, comparing, keeping the journal. The start of a Python is not in it, that of "
            "xargs and its processes is.",
            f"`{version.stdout.splitlines()[0]}` computes without the CPU's SHA instructions where "
            "Debian built it so; OpenSSL uses them, as Python's hashlib does.",
        ],
    )


def _compare(files: Files, folder: Path, pairs: int) -> list[Row]:
    root = folder / "data"
    names = _write(files, root)
    text = make(root).text
    listing = folder / "names"
    listing.write_bytes(b"\0".join(os.fsencode(each) for each in names) + b"\0")

    def verify_dataset() -> None:
        if not verify(root, [text], journal_dir=folder / "journals").ok:
            raise BenchmarkError(f"{root} changed during the benchmark")

    def hash_with(argv: Sequence[str]) -> Callable[[], None]:
        xargs = ["xargs", "-0", "-P", str(count_cpus()), "-n", str(files.per_process), *argv]

        def run() -> None:
            with listing.open("rb") as given:
                subprocess.run(xargs, stdin=given, stdout=subprocess.DEVNULL, check=True)

        return run

    rows = _rows(
        files, "sha256sum", _pairs(verify_dataset, hash_with(["sha256sum"]), pairs), AT_MOST
    )
    if shutil.which("openssl"):
        openssl = hash_with(["openssl", "dgst", "-sha256"])
        rows += _rows(files, "openssl dgst", _pairs(verify_dataset, openssl, pairs), None)
    return rows


def _rows(
    files: Files, reference: str, taken: Sequence[tuple[float, float]], at_most: float | None
) -> list[Row]:
    amount = files.count * files.size_bytes / 1e9
    return [
        Row(f"{files.name}, over {reference}", "x", median_ratio(taken), at_most),
        Row(f"{files.name}, verified", "GB/s", median([amount / a for a, _ in taken])),
        Row(f"{files.name}, {reference}", "GB/s", median([amount / b for _, b in taken])),
    ]


def _pairs(
    ours: Callable[[], None], other: Callable[[], None], count: int
) -> list[tuple[float, float]]:
    _timed(ours), _timed(other)
    taken = []
    for number in range(count):
        if number % 2:
            mine = _timed(ours)
            taken.append((mine, _timed(other)))
        else:
            theirs = _timed(other)
            taken.append((_timed(ours), theirs))
    return taken


def _timed(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _write(files: Files, root: Path) -> list[Path]:
    names = []
    for number in range(files.count):
        folder = root / f"{number // _PER_FOLDER:03}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{number:06}"
        with path.open("wb") as file:
            for _ in range(0, files.size_bytes, 1 << 20):
                file.write(os.urandom(min(1 << 20, files.size_bytes)))
        names.append(path)
    return names
