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
