"""Options and arguments that sbatch gets beside the script: from its command line and environment."""

from __future__ import annotations

import pytest

from aitne.core.jobs.sbatch_call_parser import SbatchCall, read_call
from aitne.core.jobs.sbatch_import import import_sbatch

SCRIPT = "#!/bin/bash\n{}\npython train.py\n"
HERE = "/where/sbatch/was/called"


def _called(*words: str, **variables: str) -> SbatchCall:
    return read_call(words, {**variables, "HOME": "/home/ada"})


def test_command_line_precedes_environment_and_environment_precedes_script() -> None:
    script = SCRIPT.format("#SBATCH -N 1 -p short -J mine -t 10")
    call = _called("-N", "2", "run.sh", SBATCH_PARTITION="gpu", SBATCH_TIMELIMIT="20")
    found = import_sbatch(script, HERE, call.script, call=call)
    assert found.file["resources"] == {"nodes": 2}
    assert found.file["slurm"] == {"partition": "gpu"}
    assert (found.file["name"], found.file["max_duration"]) == ("mine", "20m")
    assert [(note.line, note.option, note.changes_execution) for note in found.notes] == [
        (0, "--partition", False),
        (0, "--time", False),
    ]


def test_memory_of_the_environment_gives_way_to_another_kind_of_the_script() -> None:
    call = _called(SBATCH_MEM_PER_CPU="4G")
    script = SCRIPT.format("#SBATCH --mem=1G -c 2")
    assert import_sbatch(script, HERE, call=call).file["resources"]["memory"] == "1G"
    alone = import_sbatch(SCRIPT.format("#SBATCH -c 2"), HERE, call=call)
    assert alone.file["resources"]["memory"] == "8G"
    with pytest.raises(ValueError, match="command line: --mem-per-cpu and --mem exclude"):
        import_sbatch(script, HERE, call=_called("--mem-per-cpu=1G"))


def test_words_after_the_script_are_its_arguments() -> None:
    call = _called("-o", "out-%j.txt", "-N2", "run.sh", "-N", "4", "two words")
    assert (call.script, call.arguments) == ("run.sh", ("-N", "4", "two words"))
    found = import_sbatch("#!/bin/bash\nsrun ./a $*\n", HERE, "run.sh", call=call)
    assert found.notes == ()
    assert found.file["args"] == ["-N", "4", "two words"]
    assert found.file["log_files"] == ["out-%j.txt"]
    assert _called("--", "run.sh", "--", "x").arguments == ("--", "x")


def test_wrapped_command_is_a_script_of_sh() -> None:
    call = _called("--wrap", "srun ./a", "-n2")
    assert call.wrapped_script == "#!/bin/sh\n\nsrun ./a\n"
    with pytest.raises(ValueError, match="--wrap sbatch takes no script"):
        _called("--wrap=true", "run.sh")


def test_command_line_that_sbatch_refuses_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^command line: --frobnicate is not an option"):
        _called("--frobnicate", "run.sh")
    with pytest.raises(ValueError, match=r"^SBATCH_TIMELIMIT: --time 'soon' is not a time"):
        import_sbatch(SCRIPT.format(""), HERE, call=_called(SBATCH_TIMELIMIT="soon"))


def test_job_in_an_uploaded_folder_has_no_other_folder() -> None:
    script = SCRIPT.format("#SBATCH -N 1\ncd $SLURM_SUBMIT_DIR")
    found = import_sbatch(script, HERE, synced=HERE)
    assert "workdir" not in found.file
    assert found.notes == ()
    elsewhere = import_sbatch(SCRIPT.format("#SBATCH -D /data"), HERE, synced=HERE)
    assert "workdir" not in elsewhere.file
    assert [(note.option, note.changes_execution) for note in elsewhere.notes] == [
        ("workdir", True)
    ]


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        ("srun $*", True),
        ('python train.py "$@"', True),
        ("echo ${1:-none}", True),
        ("if [ $# -lt 2 ]; then exit 1; fi", True),
        ('echo "first: $1"', True),
        ("cat <<END\n$1\nEND", True),
        ("#!/bin/tcsh\nsetenv X $argv[1]", True),
        ("#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1])", True),
        ("awk '{print $1}' x", False),
        ('awk "{print \\$1}" x', False),
        ("echo done # not $1", False),
        ('say() {\n  echo "$1" ${2}\n}\nsay hello', False),
        ("function say { echo $1; }\nsay hello", False),
        ("say() { echo $1; }\nsay $1", True),
        ("set -- a b\necho $1", False),
        ("cat <<'END'\nit's $1\nEND\necho a", False),
        ("cat <<END\nit's\nEND\necho $1", True),
        ("echo $HOME ${HOME} $((1+1)) $$ $?", False),
        ("#!/usr/bin/perl\nprint 1;", False),
    ],
)
def test_script_that_reads_arguments_without_getting_any_is_serious(body: str, reads: bool) -> None:
    script = body if body.startswith("#!") else f"#!/bin/bash\n{body}"
    notes = import_sbatch(script + "\n", HERE).notes
    assert [(note.option, note.changes_execution) for note in notes] == (
        [("args", True)] if reads else []
    )
    assert import_sbatch(script + "\n", HERE, call=_called("x.sh", "a")).notes == ()
