"""The program that compares batch scripts: what it reads, leaves out of a comparison, and prints."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from aitne.core.jobs.sbatch_conversion_state import Note
from tests.support.compare_sbatch.comparison import Difference, Result, Row, differences, result_of
from tests.support.compare_sbatch.outcome import Outcome, listed, log_names, read_outcome
from tests.support.compare_sbatch.records import ends, has_ended, of_job, parse_record, values
from tests.support.compare_sbatch.report import document, succeeded, table
from tests.support.compare_sbatch.scripts import (
    ENVIRONMENTS,
    BatchScript,
    copy_script,
    read_scripts,
)

RECORD = (
    "JobId=700003 ArrayJobId=700002 ArrayTaskId=1 JobName=two words UserId=alice(2001) JobState=TIMEOUT "
    "Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 ExitCode=0:15 TimeLimit=00:05:00 "
    "NumNodes=1 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=2,mem=200M,node=1,gres/gpu=2 "
    "MinMemoryCPU=100M Features=(null) Command=/home/alice/run.sh a b=c StdErr=/home/alice/err-%A_%a "
    "StdOut=/home/alice/slurm-700002_1.out Power="
)


def test_record_has_the_values_of_each_aspect() -> None:
    record = parse_record(RECORD)
    held = {record["JobId"]: record}
    assert of_job(held, "700002") == of_job(held, "700003") == [record]
    assert values([record, record], "memory") == ["MinMemoryCPU=100M"]
    assert values([record], "total") == ["TRES=cpu=2,mem=200M,node=1,gres/gpu=2"]
    assert values([record], "gpus") == ["TRES.gres=gres/gpu=2"]
    assert values([record], "command") == ["Command=/home/alice/run.sh a b=c"]
    assert ends([record]) == ["TIMED_OUT 143"]
    assert has_ended([record])
    assert not has_ended([])
    assert not has_ended([record, parse_record("JobId=700004 JobState=PENDING ExitCode=0:0")])
    assert log_names(Path("/home/alice"), [record]) == {"slurm-JOB_1.out", "err-JOB_1"}


def test_outcome_has_nothing_that_is_new_in_each_run(tmp_path: Path) -> None:
    plain = outcome_of(tmp_path / "a", job=700_010, node="n1", text="took 1:02:03 on n[1-2]")
    here = outcome_of(tmp_path / "b", job=700_011, node="n3", text="took 2:02:03 on n2,n[3-4]")
    assert not [*differences(plain, here)]
    assert plain.aspects["files"] == ["result", "result: JOB", "slurm-JOB.out"]
    assert plain.aspects["lines"] == ["took TIME on NODES FOLDER"]
    assert plain.environment["SLURM_JOB_NODELIST"] == ["2 nodes"]


def test_each_difference_is_named(tmp_path: Path) -> None:
    plain = outcome_of(tmp_path / "a", job=700_010, node="n1", text="4 GPUs")
    here = outcome_of(tmp_path / "b", job=700_011, node="n1", text="0 GPUs", tasks="2")
    found = {one.aspect: (one.sbatch, one.platform) for one in differences(plain, here)}
    assert found == {
        "lines": (("4 GPUs FOLDER",), ("0 GPUs FOLDER",)),
        "environment SLURM_NTASKS": ((), ("2",)),
    }


def outcome_of(place: Path, *, job: int, node: str, text: str, tasks: str = "") -> Outcome:
    (place / ENVIRONMENTS).mkdir(parents=True)
    (place / "run.sh").touch()
    before = listed(place)
    (place / f"slurm-{job}.out").write_text(f"{text} {place}\n")
    os.link(place / f"slurm-{job}.out", place / f"errors-{job}")
    (place / "result").write_text(f"{job}\n")
    variables = {"SLURM_JOB_NODELIST": f"{node},n2", "SLURM_JOB_ID": str(job), "HOME": "/x"}
    variables |= {"SLURM_NTASKS": tasks} if tasks else {}
    (place / ENVIRONMENTS / "1").write_text("\0".join(f"{k}={v}" for k, v in variables.items()))
    logs = frozenset({"slurm-JOB.out", "errors-JOB"})
    found = read_outcome(place, before, [], logs, ["COMPLETED 0"])
    aspects = {**found.aspects, "files": [x for x in found.aspects["files"] if "errors" not in x]}
    return Outcome(aspects, found.environment)


def test_script_says_how_it_is_called_and_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "probe").write_text("#!/bin/sh\n")
    (tmp_path / "data.txt").touch()
    (tmp_path / "a.sh").write_text(
        '#!/bin/bash\n# Call: sbatch -N 2 a.sh "my file" 4\n#SBATCH -n 1\n\n# x\nset -u\n$1\n'
    )
    (tmp_path / "b.slurm").write_text("#!/no/such/interpreter\n")
    (tmp_path / "c.sbatch").write_text("#!/bin/sh\n# Needs: sh no-such-program\ntrue\n")
    scripts = {script.name: script for script in read_scripts(tmp_path)}
    assert {name: script.call for name, script in scripts.items()} == {
        "a": ("-N", "2", "a.sh", "my file", "4"),
        "b": ("b.slurm",),
        "c": ("c.sbatch",),
    }
    missing = [script.missing for script in scripts.values()]
    assert missing == [None, "/no/such/interpreter", "no-such-program"]
    place = tmp_path.with_name(f"{tmp_path.name}-copy")
    copy_script(scripts["a"], place, os.getuid(), os.getgid())
    assert listed(place) == {"a.sh", "data.txt", "probe"}


def test_copy_writes_its_environment_without_another_line(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/bash\n#SBATCH -n 1\n\nset -eu\necho $LINENO\n")
    (tmp_path / "run").write_text(BatchScript(script).instrumented(tmp_path / "with space"))
    (tmp_path / "with space").mkdir()
    variables = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}
    done = subprocess.run(
        ["bash", tmp_path / "run"], env=variables, capture_output=True, check=True
    )
    assert done.stdout == b"5\n"
    assert b"SLURM_NTASKS=2\0" in (tmp_path / "with space" / "7.script").read_bytes()
    script.write_text("#!/usr/bin/env python3\nprint()\n")
    assert BatchScript(script).instrumented(tmp_path) == script.read_text()


def test_only_silent_differences_fail() -> None:
    difference = Difference("memory", ("MinMemoryNode=0",), ("MinMemoryNode=2G",))
    about_memory = Note(line=2, option="--mem", message="x")
    about_tasks = Note(line=2, option="--ntasks", message="x")
    assert result_of((), (about_memory,)) is Result.ALIKE
    assert result_of((difference,), (about_tasks, about_memory)) is Result.NOTED
    assert result_of((difference,), (about_tasks,)) is Result.DIFFERENT
    assert result_of((difference,), ()) is Result.DIFFERENT
    rows = [
        Row("a", Result.ALIKE, values={"memory": ("x",)}),
        Row("b", Result.REFUSED, "line 3: --mem is wrong"),
        Row(
            "c",
            Result.NOTED,
            notes=("line 2: x",),
            values={"memory": ("x",)},
            differences=(difference,),
        ),
    ]
    assert succeeded(rows)
    assert not succeeded([*rows, Row("d", Result.DIFFERENT, differences=(difference,))])
    lines = table(rows).splitlines()
    assert lines[2].endswith("refused: line 3: --mem is wrong")
    assert "    memory: sbatch: MinMemoryNode=0 | platform: MinMemoryNode=2G" in lines
    assert lines[-1] == "3 scripts: 1 alike, 1 refused, 1 different, noted"
    assert document(rows)[2]["differences"] == [
        {"aspect": "memory", "sbatch": ["MinMemoryNode=0"], "platform": ["MinMemoryNode=2G"]}
    ]


@pytest.mark.parametrize("name", ["arguments", "wrap"])
def test_scripts_of_the_tests_are_read(name: str) -> None:
    folder = Path(__file__).resolve().parents[2] / "assets" / "sbatch"
    scripts = {script.name: script for script in read_scripts(folder)}
    assert len(scripts[name].call) > 1
