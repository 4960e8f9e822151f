"""A batch script becomes a command as it is, and the job names its path."""

from __future__ import annotations

import pytest

from aitne.core.jobs.sbatch_import import import_sbatch

HERE = "/where/sbatch/was/called"
SCRIPT = "#!/bin/bash\n{}\npython train.py\n"


@pytest.mark.parametrize(
    "shebang",
    [
        "#!/bin/bash",
        "#!/usr/bin/env python3",
        "#!/usr/bin/perl -w",
        "#!/bin/zsh",
        "#!/bin/sh",
        "#!/bin/bash -e",
        "#! /bin/bash -l",
    ],
)
def test_script_is_kept_as_it_is(shebang: str) -> None:
    script = (
        f"{shebang}\n#SBATCH -N2\n\nmodule purge\nmodule load cuda/12.6 gcc # both\n"
        "source ~/envs/v/bin/activate\ncat > x <<E\n#!/bin/bash\n#SBATCH -N 7\nE\ngrep SBATCH $0 \n\n"
    )
    found = import_sbatch(script, HERE)
    assert found.file == {
        "commands": [script],
        "workdir": HERE,
        "resources": {"nodes": 2},
        "log_files": ["slurm-%j.out"],
    }
    assert [note.changes_execution for note in found.notes] == [False]


def test_script_without_an_interpreter_runs_under_bash() -> None:
    found = import_sbatch("#!python\nprint(1)\n", HERE)
    assert [(note.line, note.changes_execution) for note in found.notes] == [(1, True)]
    assert found.file["commands"] == ["#!/bin/bash\nprint(1)\n"]


def test_script_without_commands_has_none() -> None:
    found = import_sbatch("#!/bin/bash\n#SBATCH -N 2\n", HERE, "run.sh")
    assert found.file.keys() == {"name", "workdir", "resources", "log_files"}
    assert [note.option for note in found.notes] == ["commands"]


@pytest.mark.parametrize(
    ("name", "line", "folder", "path"),
    [
        ("run.sh", "-N 1", HERE, "run.sh"),
        ("jobs/run.sh", "-N 1", HERE, "jobs/run.sh"),
        ("/data/run.sh", "-N 1", HERE, "/data/run.sh"),
        ("jobs/run.sh", "-D /x", HERE, f"{HERE}/jobs/run.sh"),
        ("/data/run.sh", "-D /x", HERE, "/data/run.sh"),
        ("run.sh", "-N 1", None, "run.sh"),
    ],
)
def test_job_names_its_script(name: str, line: str, folder: str | None, path: str) -> None:
    file = import_sbatch(SCRIPT.format(f"#SBATCH {line}"), folder, name).file
    assert (file["name"], file["script_path"]) == ("run.sh", path)


@pytest.mark.parametrize(
    "line",
    ["scancel --batch -s TERM $SLURM_JOB_ID", "  scancel -b $id", "x && scancel -s USR1 --bat 7"],
)
def test_script_that_signals_batch_scripts_alone_has_a_note(line: str) -> None:
    [note] = import_sbatch(f"#!/bin/bash\nx=1\n{line}\n", HERE).notes
    assert (note.line, note.option, note.changes_execution) == (3, "scancel --batch", True)


@pytest.mark.parametrize("line", ["scancel $SLURM_JOB_ID", "# scancel -b 7", "scancel 7; ls -b"])
def test_script_that_cancels_jobs_has_no_note(line: str) -> None:
    assert import_sbatch(f"#!/bin/bash\n{line}\nx=1\n", HERE).notes == ()


def test_submit_dir_without_a_known_folder_is_serious() -> None:
    script = "#!/bin/bash\n#SBATCH --chdir={}\ncd $SLURM_SUBMIT_DIR\n"
    for folder in (HERE, "/x"):
        assert import_sbatch(script.format(folder), HERE).notes == ()
    [note] = import_sbatch(script.format("/x")).notes
    assert (note.option, note.changes_execution) == ("SLURM_SUBMIT_DIR", True)


def test_script_that_reads_its_path_from_slurm_has_a_note() -> None:
    reads = "path=$(scontrol show job $SLURM_JOB_ID | sed -n 's/.*Command=//p')\n"
    [note] = import_sbatch(f"#!/bin/bash\n# Command=\n{reads}", HERE).notes
    assert (note.line, note.option, note.changes_execution) == (3, "Command=", True)
    assert import_sbatch("#!/bin/bash\nscontrol show job\n# Command\n", HERE).notes == ()
    assert import_sbatch("#!/bin/bash\necho Command=\n", HERE).notes == ()
