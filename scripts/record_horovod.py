"""Record what the real Horovod answers, for runtime/tests/assets/horovod/<version>.

    python scripts/record_horovod.py
    python scripts/record_horovod.py --check

Horovod is the one that scripts/horovod_wheel.py installs into the same environment. ``--check`` only
compares the sources with those of the recording, and needs no Horovod.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "runtime"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runtime.tests.ranks import horovod_recording as recording
from scripts.horovod_wheel import VERSION, print_progress, read_open_mpi_version

ROOT = Path(__file__).resolve().parent.parent
TRANSPORT_TESTS = ("runtime/tests/ranks/test_horovod.py", "runtime/tests/ranks/test_transports.py")


def check() -> int:
    """Say whether the recording is current, by the exit status: 1 if it is not."""
    changed = recording.outdated()
    if changed:
        print_progress(f"The recording of Horovod {VERSION} is out of date: {', '.join(changed)}.")
        print_progress(recording.REMEDY)
        return 1
    print_progress(f"The recording of Horovod {VERSION} is current.")
    return 0


def make_recording() -> dict[str, Any]:
    """Ask the real Horovod.

    Returns:
        The files of a recording, by their names.

    Raises:
        RanksFailedError: a check failed.
        SetupError: this machine has no Open MPI.
    """
    from runtime.tests.ranks import horovod_answers
    from tests.support.ranks import Pool

    manifest = {
        "horovod": importlib.metadata.version("horovod"),
        "torch": importlib.metadata.version("torch").partition("+")[0],
        "open_mpi": read_open_mpi_version(),
        "python": platform.python_version(),
        "sources": recording.sources(),
    }
    answers: dict[str, Any] = {recording.MANIFEST: manifest}
    for size in horovod_answers.SIZES:
        print_progress(f"Running the conformance checks on {size} ranks …")
        with closing(Pool("mpirun")) as pool:
            results = horovod_answers.checks(pool, "horovod.torch", size)
        answers[recording.checks_file(size)] = results
    with closing(Pool("mpirun")) as pool:
        answers[recording.API] = horovod_answers.api(pool, "horovod.torch")
    with closing(Pool("mpirun")) as pool:
        answers[recording.EXAMPLE] = horovod_answers.example(pool, "horovod.torch")
    return answers


def transport_passes() -> bool:
    """Run the tests of the transport that uses the real Horovod; returns whether they passed."""
    print_progress("Running the tests of the transport …")
    argv = [sys.executable, "-m", "pytest", "-q", "-k", "horovod", *TRANSPORT_TESTS]
    required = {"AITNE_REQUIRE": "torch,mpi,horovod"}
    return subprocess.run(argv, cwd=ROOT, env={**os.environ, **required}).returncode == 0


def main() -> int:
    """Record, or check the recording; the folder has the answers afterwards."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say whether it is current")
    if parser.parse_args().check:
        return check()
    if importlib.util.find_spec("horovod") is None:
        print_progress(f"Horovod {VERSION} is not installed: scripts/horovod_wheel.py")
        return 1
    answers = make_recording()
    if not transport_passes():
        print_progress("Nothing is recorded: the transport's tests failed.")
        return 1
    recording.save(answers)
    return check()


if __name__ == "__main__":
    sys.exit(main())
