"""Conformance with the recorded results of Horovod, and of that recording with Horovod itself.

The transports' own suite runs each transport on 1 to 4 ranks, so here a size needs one transport only:

- shm, the fastest one, runs all of them: 1 rank has no other rank, 3 divide no power of two (parts of
  different sizes, Adasum's odd rank), 4 are two levels of Adasum and the most ranks that process sets have;
- torch_pg, which joins the ranks of several nodes, runs 1, 2 and 4;
- mpi, whose ranks share two processors with their busy waiting, runs 2: the checks that one rank skips.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from runtime.tests.ranks import horovod_answers as answers
from runtime.tests.ranks import horovod_recording as recording

from tests.support.ranks import MpiPool, Pool
from tests.support.requirements import need_horovod, required

TOLERANCE = 0.005
"""Between the recorded figures of the example and those of another processor, whose kernels may round
otherwise: two of the 450 images of the accuracy. Gradients that are not exchanged change a loss by 0.1."""

# Four ranks on two cores take their time.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def horovod() -> Iterator[Pool]:
    """Ranks for the real Horovod, which a process can initialize only once under MPI.

    Its results are recorded. It runs if the recording is out of date or if it is required.
    """
    if "horovod" not in required() and not recording.outdated():
        pytest.skip(
            "the recording of Horovod is current; AITNE_REQUIRE=horovod runs Horovod itself"
        )
    need_horovod()
    ranks = Pool("mpirun")
    yield ranks
    ranks.close()


def test_recording_is_current() -> None:
    changed = recording.outdated()
    assert not changed, (
        f"{', '.join(changed)} changed since Horovod was recorded. {recording.REMEDY}"
    )


def test_recording_is_outdated_by_changed_code_only(tmp_path: Path) -> None:
    for name in [*recording.sources(), "constraints.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(recording.ROOT / name, tmp_path / name)
    manifest = {"torch": recording.pinned_torch(), "sources": recording.sources()}
    folder = tmp_path / "recording"
    recording.save({recording.MANIFEST: manifest}, folder)
    wheel = tmp_path / "scripts" / "horovod_wheel.py"
    checks = tmp_path / "runtime" / "tests" / "ranks" / "conformance.py"
    wheel.write_text("# A comment.\n" + wheel.read_text())
    checks.write_text(checks.read_text().replace("What a program may rely on", "Any docstring"))
    assert recording.outdated(tmp_path, folder) == []

    wheel.write_text(wheel.read_text().replace(f'"{recording.VERSION}"', '"9.9.9"'))
    checks.with_name("conformance_more.py").write_text("CHECKS = 1\n")
    (tmp_path / "constraints.txt").write_text("torch==3.0.0\n")
    changed = ["runtime/tests/ranks/conformance_more.py", "scripts/horovod_wheel.py", "torch"]
    assert recording.outdated(tmp_path, folder) == changed


@pytest.mark.parametrize("size", answers.SIZES)
def test_recorded_checks_are_those_of_horovod(horovod: Pool, size: int) -> None:
    assert answers.checks(horovod, "horovod.torch", size) == recording.load(
        recording.checks_file(size)
    )


def test_recorded_api_is_that_of_horovod(horovod: Pool) -> None:
    assert answers.api(horovod, "horovod.torch") == recording.load(recording.API)


def test_recorded_example_is_that_of_horovod(horovod: Pool, pool: Pool) -> None:
    printed = answers.example(horovod, "horovod.torch")
    assert_alike(printed, recording.load(recording.EXAMPLE))
    # On one machine both print the same digits.
    assert answers.example(pool, "aitne_train", "torch_pg") == printed


@pytest.mark.parametrize(
    ("transport", "size"),
    [("shm", 1), ("shm", 2), ("shm", 3), ("shm", 4), *(("torch_pg", size) for size in (1, 2, 4))],
)
def test_aitne_distrib_passes_recorded_checks(pool: Pool, transport: str, size: int) -> None:
    assert_passes(answers.checks(pool, "aitne_train", size, transport), size)


def test_aitne_distrib_passes_recorded_checks_over_mpi(mpi_pool: MpiPool) -> None:
    assert_passes(answers.checks(mpi_pool, "aitne_train", 2, "mpi"), 2)


def test_aitne_distrib_has_recorded_api(pool: Pool) -> None:
    ours = answers.api(pool, "aitne_train")
    recorded = recording.load(recording.API)
    assert {name: ours.get(name, "no such name") for name in recorded} == recorded


def test_example_prints_recorded_figures_with_only_its_import_changed(pool: Pool) -> None:
    printed = answers.example(pool, "aitne_train", "torch_pg")
    assert "accuracy" in printed
    assert_alike(printed, recording.load(recording.EXAMPLE))


def assert_passes(results: dict[str, str], size: int) -> None:
    """Assert that all checks passed, also those that Horovod cannot pass.

    Checks for more ranks did not run.
    """
    recorded: dict[str, str] = recording.load(recording.checks_file(size))
    assert list(recorded.values()).count("passed") > 60
    expected = {
        name: result if result.startswith("needs") else "passed"
        for name, result in recorded.items()
    }
    assert {name: results.get(name) for name in expected} == expected


def assert_alike(printed: str, recorded: str) -> None:
    """Assert equal texts with figures within the tolerance."""
    text, figures = answers.figures(printed)
    recorded_text, recorded_figures = answers.figures(recorded)
    assert text == recorded_text
    assert figures == pytest.approx(recorded_figures, abs=TOLERANCE)
