from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.cli import job_file_reader
from aitne.core.jobs import sbatch_option_names, sbatch_options
from aitne.core.jobs.job_file_rendering import render_job_file
from aitne.core.jobs.sbatch_import import ImportedScript
from aitne.core.jobs.sbatch_import import import_sbatch as import_from
from aitne.core.models.job_file import JobFile
from aitne.core.units import format_duration

SCRIPT = "#!/bin/bash\n{}\npython train.py\n"
HERE = "/where/sbatch/was/called"


def import_sbatch(text: str) -> ImportedScript:
    """Import a script and remove the folder that it is imported in from the job file, and the
    default file of its log.
    """
    found = import_from(text, HERE)
    if found.file.get("workdir") == HERE:
        del found.file["workdir"]
    if found.file.get("log_files") in (["slurm-%j.out"], ["slurm-%A_%a.out"]):
        del found.file["log_files"]
    return found


def fields(*lines: str) -> dict[str, Any]:
    """Return the job file's fields for these `#SBATCH` lines, without the command; no line is left out."""
    script = SCRIPT.format("\n".join(f"#SBATCH {line}" for line in lines))
    found = import_sbatch(script)
    assert found.notes == ()
    assert found.file.pop("commands") == [script]
    return found.file


def noted(*lines: str) -> list[str]:
    found = import_sbatch(SCRIPT.format("\n".join(f"#SBATCH {line}" for line in lines)))
    return [note.option for note in found.notes]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--job-name=edsr", {"name": "edsr"}),
        ("--job-name edsr", {"name": "edsr"}),
        ("-J edsr", {"name": "edsr"}),
        ("-Jedsr", {"name": "edsr"}),
        ('-J "two words"', {"name": "two words"}),
        (r"-J two\ words", {"name": "two words"}),
        ("-J 'a #1' # why", {"name": "a #1"}),
        ("--part=gpu", {"slurm": {"partition": "gpu"}}),
        (
            "-p gpu,long -A lab -q high",
            {"slurm": {"partition": "gpu,long", "account": "lab", "qos": "high"}},
        ),
        (
            "-C nvlink&ib --reservation=r1",
            {"slurm": {"constraint": "nvlink&ib", "reservation": "r1"}},
        ),
        ("--exclusive --no-requeue", {"slurm": {"exclusive": True, "requeue": False}}),
        ("--signal=USR1@90", {"slurm": {"signal": "steps:USR1@90"}}),
        ("--signal=term", {"slurm": {"signal": "steps:TERM@60"}}),
        ("--signal=B:10@90", {"slurm": {"signal": "B:10@90"}}),
        ("-t 90", {"max_duration": "1h30m"}),
        ("-t 0", {"max_duration": "3650d"}),
        ("-t UNLIMITED", {"max_duration": "3650d"}),
        ("--time=-1", {"max_duration": "3650d"}),
        ("-t 90:30", {"max_duration": "1h30m30s"}),
        ("--time=1:30:00", {"max_duration": "1h30m"}),
        ("--time=2-12", {"max_duration": "2d12h"}),
        ("--time 1-02:03:04", {"max_duration": "1d2h3m4s"}),
        ("-a 0-9:3%2", {"array": "0-9:3%2"}),
        ("-D /data/x", {"workdir": "/data/x", "env": {"SLURM_SUBMIT_DIR": HERE}}),
        (f"-D {HERE}", {}),
        (
            "--export=NONE,A=1,B=x",
            {
                "env": {
                    "SLURM_EXPORT_ENV": "NONE,A=1,B=x",
                    "SLURM_GET_USER_ENV": "1",
                    "A": "1",
                    "B": "x",
                }
            },
        ),
        ("--export=NONE", {"env": {"SLURM_EXPORT_ENV": "NONE", "SLURM_GET_USER_ENV": "1"}}),
        ("--export=NIL", {"env": {"SLURM_EXPORT_ENV": "NIL"}}),
        ("-N2", {"resources": {"nodes": 2}}),
        ("-N 2-2", {"resources": {"nodes": 2}}),
        ("-c 8", {"resources": {"cpus_per_task": 8}}),
        (
            "-n1 -c8 --mem=4G",
            {
                "resources": {
                    "tasks_per_node": 1,
                    "cpus_per_task": 8,
                    "memory": "4G",
                    "sbatch_options": ["ntasks"],
                }
            },
        ),
        ("--mem=16G", {"resources": {"memory": "16G"}}),
        ("--mem=16000", {"resources": {"memory": "16000M"}}),
        ("--mem=2048k", {"resources": {"memory": "2M"}}),
        (
            "-c4 --mem-per-cpu=2G",
            {
                "resources": {
                    "cpus_per_task": 4,
                    "memory": "8G",
                    "sbatch_options": ["mem-per-cpu"],
                }
            },
        ),
        (
            "--gres=gpu:2 --mem-per-gpu=8G",
            {"resources": {"gpu": 2, "memory": "16G", "sbatch_options": ["mem-per-gpu"]}},
        ),
        ("--gres=gpu", {"resources": {"gpu": 1}}),
        ("--gres=none", {}),
        ("--gres=gpu:a100:4", {"resources": {"gpu": "a100:4"}}),
        ("--gres=gpu:1g.10gb:2", {"resources": {"gpu": "1g.10gb:2"}}),
        ("--gres=gpu:a100", {"resources": {"gpu": "a100:1"}}),
        ("--gres=gpu:a100:2(S:0-1)", {"resources": {"gpu": "a100:2"}}),
        ("--gres=gres/gpu:1g.10gb+me:2", {"resources": {"gpu": "1g.10gb+me:2"}}),
        (
            "--gres=gpu:a100:2 --gpus-per-node=a100:2",
            {"resources": {"gpu": "a100:2", "sbatch_options": ["gpus-per-node"]}},
        ),
        ("--gres=gpu:2,gpu:3,shard:2,shard:4", {"resources": {"gpu": 3, "gres": {"shard": 4}}}),
        (
            "--gres=gpu:0 --gpus-per-node=2",
            {"resources": {"gpu": 2, "sbatch_options": ["gpus-per-node"]}},
        ),
        ("--gres=gpu::2,lscratch:1G", {"resources": {"gpu": 2, "gres": {"lscratch": 1 << 30}}}),
        (
            "--gres=gpu:2,shard:8,fpga:u280:1",
            {"resources": {"gpu": 2, "gres": {"shard": 8, "fpga:u280": 1}}},
        ),
        ("-G 8 -N 2", {"resources": {"nodes": 2, "gpu": 4, "sbatch_options": ["gpus"]}}),
        (
            "-G a100:8 -N 2",
            {"resources": {"nodes": 2, "gpu": "a100:4", "sbatch_options": ["gpus"]}},
        ),
        (
            "--gpus-per-node=a100:3",
            {"resources": {"gpu": "a100:3", "sbatch_options": ["gpus-per-node"]}},
        ),
        ("--mem=0", {"resources": {"memory": "all"}}),
        ("--mem=0G -c 2", {"resources": {"cpus_per_task": 2, "memory": "all"}}),
        ("-c 2 --mem-per-cpu=0", {"resources": {"cpus_per_task": 2, "memory": "all"}}),
        (
            "-N1 -n4 -G 8 --gpus-per-task=2 --mem=1G",
            {
                "resources": {
                    "nodes": 1,
                    "tasks_per_node": 4,
                    "gpu": 8,
                    "memory": "1G",
                    "sbatch_options": ["ntasks", "gpus-per-task", "gpus"],
                }
            },
        ),
        (
            "--gpus-per-task=1 --ntasks-per-node=4 --mem=1G",
            {
                "resources": {
                    "tasks_per_node": 4,
                    "gpu": 4,
                    "memory": "1G",
                    "sbatch_options": ["gpus-per-task"],
                }
            },
        ),
        ("-Qv -N 3", {"resources": {"nodes": 3}}),
        (
            "-L matlab:1,ansys@site:2 -x n[3-4]",
            {
                "placement": {"exclude": "n[3-4]"},
                "slurm": {"licenses": "matlab:1,ansys@site:2"},
            },
        ),
        ("--nice --time-min=30", {"slurm": {"nice": 100, "time_min": "30m"}}),
        ("--begin=now+2hours", {"begin": "2h"}),
        ("-b now+90", {"begin": "1m30s"}),
        ("-b now+1week --begin=now", {}),
        (
            "-H -d singleton",
            {"singleton": True, "hold": True, "env": {"SLURM_JOB_DEPENDENCY": "singleton"}},
        ),
        ("--nice=5", {"slurm": {"nice": 5}}),
        ("--exclusive=user", {"slurm": {"extra": ["--exclusive=user"]}}),
        ("--exclusive=user --exclusive", {"slurm": {"exclusive": True}}),
        ("--exclusive --exclusive=mcs", {"slurm": {"extra": ["--exclusive=mcs"]}}),
        (
            "-w n1 --hint=nomultithread --spread-job -k --nodelist=n2",
            {
                "placement": {"nodes": "n2"},
                "slurm": {"extra": ["--hint=nomultithread", "--spread-job", "--no-kill"]},
            },
        ),
        (
            "-w n[1-3] --switches=1@10:00",
            {
                "resources": {"nodes": 3},
                "placement": {"nodes": "n[1-3]", "compact": "prefer", "wait": "10m"},
            },
        ),
        ("--switches 1 -m block", {"placement": {"compact": "require", "order": "given"}}),
        ("-m cyclic:block", {"slurm": {"extra": ["--distribution=cyclic:block"]}}),
    ],
)
def test_an_option_has_its_field(line: str, expected: dict[str, Any]) -> None:
    script = SCRIPT.format(f"#SBATCH {line}")
    found = import_sbatch(script)
    assert found.file.pop("commands") == [script]
    assert found.file == expected
    assert not any(note.changes_execution and not note.needs_permission for note in found.notes)


@pytest.mark.parametrize(
    ("line", "nodes", "tasks", "serious"),
    [
        ("-N2 --ntasks-per-node=4", 2, 4, None),
        ("-N2 --tasks-per-node=4", 2, 4, None),
        ("-N2 --tasks-per 4", 2, 4, None),
        ("--ntasks-per-node=4", None, 4, None),
        ("-N1 -n8", 1, 8, None),
        ("-n8", None, 8, True),
        ("-N2 -n8", 2, 4, None),
        ("-n8 --ntasks-per-node=4", 2, 4, None),
        ("-n3 --ntasks-per-node=4", 1, 3, None),
        ("-N4 -n2", 2, 1, False),
        ("-N4 -n8 --ntasks-per-node=4", 4, 2, False),
        ("-N2 -n7", 2, 4, True),
        ("-n7 --ntasks-per-node=4", 2, 4, True),
        ("-N2 -n8 --ntasks-per-node=2", 2, 4, True),
        ("-N2-4 -n8", 2, 4, True),
    ],
)
def test_tasks_are_converted_or_the_note_is_serious(
    line: str, nodes: int | None, tasks: int, serious: bool | None
) -> None:
    found = import_sbatch(SCRIPT.format(f"#SBATCH {line} --mem=1G"))
    resources = found.file["resources"]
    assert (resources.get("nodes"), resources["tasks_per_node"]) == (nodes, tasks)
    kinds = {note.changes_execution for note in found.notes}
    assert (max(kinds) if kinds else None) is serious


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "#SBATCH -n 4\nsrun -n 1 a & wait",
        "#SBATCH -N 2 --ntasks-per-node=8",
    ],
)
def test_job_file_leaves_out_what_the_script_leaves_out(lines: str) -> None:
    file = import_sbatch(f"#!/bin/bash\n{lines}\ntrue\n").file
    assert "memory" not in file.get("resources", {})
    assert not {"max_duration", "retry", "environment"} & file.keys()
    assert "requeue" not in file.get("slurm", {})


@pytest.mark.parametrize(
    ("line", "log_files"),
    [
        ("-o x-%j.log", ["x-%j.log"]),
        ("-e x.err", ["slurm-%j.out", "x.err"]),
        ("-e x.err -a 0-1", ["slurm-%A_%a.out", "x.err"]),
        ("-o logs/%x.out -e logs/%x.err", ["logs/%x.out", "logs/%x.err"]),
        ("-o both -e both --open-mode=truncate", ["both"]),
        ("-o first -o /dev/null", None),
        ("", ["slurm-%j.out"]),
        ("-a 0-1", ["slurm-%A_%a.out"]),
    ],
)
def test_files_of_stdout_and_stderr_are_kept(line: str, log_files: list[str] | None) -> None:
    found = import_from(SCRIPT.format(f"#SBATCH {line}"), HERE)
    assert found.file.get("log_files") == log_files
    assert ("--error" in {note.option for note in found.notes}) is (
        log_files is not None and any("err" in path for path in log_files)
    )


def test_the_last_of_an_option_counts() -> None:
    assert fields("-t 10", "--time=20", "-N 4", "--nodes 1") == {
        "resources": {"nodes": 1},
        "max_duration": "20m",
    }


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("-e x.err", "--error"),
        ("-o /dev/null", "--output"),
        ("--open-mode=append", "--open-mode"),
        ("--mail-type=END --mail-user=a@b.c", "--mail-type"),
        ("-d afterok:12:13", "--dependency"),
        ("-w node[1-", "placement.nodes"),
        ("-m arbitrary", "--distribution"),
        ("--switches=4@1:00:00", "--switches"),
        ("--begin=16:00", "--begin"),
        ("--begin=2026-01-31T20:00", "--begin"),
        ("--begin=now+99years", "--begin"),
        ("--begin=now+99999999weeks", "begin"),
        ("-d singleton,afterany:7", "--dependency"),
        ("--requeue=expedite", "--requeue"),
        ("--tmp=1G", "--tmp"),
        ("--tmp='a\x01'", "--tmp"),
        ("--nice=-5", "--nice"),
        ("-x /home/ada/nodes", "placement.exclude"),
        ("--gres=gpu:1 --mem-per-gpu=0", "--mem-per-gpu"),
        ("--time-min=UNLIMITED", "--time-min"),
        ("-N 2-4", "--nodes"),
        ("-N 0", "--nodes"),
        ("-n 7 -N 2", "--ntasks"),
        ("-n 8", "--ntasks"),
        ("-G 7 -N 2", "--gpus"),
        ("-G many", "--gpus"),
        ("--gres=gpu:a:b:c", "--gres"),
        ("--gres=gpu:a100:2,gpu:v100:1", "--gres"),
        ("--gpus=a100:2,v100:1", "--gpus"),
        ("--gres=gpu:a100:2 --gpus-per-node=v100:2", "--gpus-per-node"),
        ("--gres=gpu:2 --gpus-per-node=4", "--gpus-per-node"),
        ("--gpus-per-node=1 --gpus=4", "--gpus"),
        ("--export=ALL", "--export"),
        ("--exclusive=user", "--exclusive"),
        ("--signal=RB:USR1@60", "--signal"),
        ("--export=SLURM_X=1", "--export"),
    ],
)
def test_unsupported_sbatch_option_is_noted(line: str, option: str) -> None:
    assert option in noted(line)


@pytest.mark.parametrize(
    "line", ["--quiet", "-v", "-o x.log", "--mail-user=a@b.c", "--hint=multithread", "-m cyclic"]
)
def test_option_without_effect_on_jobs_is_not_serious(line: str) -> None:
    found = import_sbatch(SCRIPT.format(f"#SBATCH {line}"))
    assert [
        note for note in found.notes if note.changes_execution and note.option != "workdir"
    ] == []


@pytest.mark.parametrize(
    ("line", "gpu"),
    [
        ("--gres=gpu:2 --gpus-per-node=3", 2),
        ("--gres=gpu:3 --gpus-per-node=2", 3),
        ("--gpus-per-node=a100:3 --gres=gpu:a100:2", "a100:2"),
    ],
)
def test_of_two_numbers_of_gpus_that_of_gres_counts(line: str, gpu: int | str) -> None:
    found = import_sbatch(SCRIPT.format(f"#SBATCH {line}"))
    assert found.file["resources"] == {"gpu": gpu}
    [note] = found.notes
    assert (note.option, note.changes_execution) == ("--gpus-per-node", True)


def test_option_that_changes_the_environment_is_serious() -> None:
    found = import_sbatch(SCRIPT.format("#SBATCH --get-user-env"))
    [note] = [note for note in found.notes if note.option == "--get-user-env"]
    assert note.changes_execution
    assert "clean environment" in note.message


@pytest.mark.parametrize("line", ["#PBS -l nodes=2", "#BSUB -n 4", "#BB create_persistent"])
def test_directives_of_other_systems_are_serious(line: str) -> None:
    [note] = import_sbatch(f"#!/bin/bash\n{line}\nrun\n").notes
    assert (note.line, note.option, note.changes_execution) == (2, line.split()[0], True)


def test_directives_need_no_blank_and_may_say_slurm() -> None:
    found = import_sbatch("#!/bin/bash\n#SBATCH--nodes=2\n#SLURM -c 3\nrun\n")
    assert found.file["resources"] == {"nodes": 2, "cpus_per_task": 3}


def test_imported_job_gets_working_directory_of_sbatch_or_note() -> None:
    script = SCRIPT.format("")
    assert import_from(script, "/data/ada").file["workdir"] == "/data/ada"
    unknown = import_from(script)
    assert "workdir" not in unknown.file
    assert [(note.option, note.changes_execution) for note in unknown.notes] == [("workdir", True)]
    for folder in (None, "/data/ada"):
        assert import_from(SCRIPT.format("#SBATCH -D /x"), folder).file["workdir"] == "/x"
    relative = import_from(SCRIPT.format("#SBATCH -D ../sub"))
    assert [note.option for note in relative.notes] == ["--chdir"]
    assert "workdir" not in relative.file
    assert (
        import_from(SCRIPT.format("#SBATCH -D ../sub"), "/data/ada").file["workdir"] == "/data/sub"
    )


def test_directives_end_with_the_first_command() -> None:
    script = "#!/bin/bash\n# -- \n##SBATCH -N 9\n #SBATCH -N 8\n\nx=1\n#SBATCH -N 7\n"
    found = import_sbatch(script)
    assert found.file == {"commands": [script]}
    assert [(note.line, note.option, note.changes_execution) for note in found.notes] == [
        (7, "#SBATCH", False)
    ]


def test_only_appending_to_a_file_of_the_log_is_serious() -> None:
    for mode, serious in (("append", True), ("a", True), ("truncate", False), ("t", False)):
        [note] = import_from(SCRIPT.format(f"#SBATCH --open-mode={mode}"), HERE).notes
        assert (note.option, note.changes_execution) == ("--open-mode", serious)


def test_option_that_the_site_must_permit_is_serious_until_it_does() -> None:
    script = SCRIPT.format("#SBATCH --hint=nomultithread --cpu-freq=high")
    [note] = import_from(script, HERE).notes
    assert (note.option, note.changes_execution, note.needs_permission) == (
        "--cpu-freq",
        True,
        True,
    )
    assert import_from(script, HERE, permitted=["--hint", "--cpu-freq"]).notes == ()
    assert {note.option for note in import_from(script, HERE, permitted=()).notes} == {
        "--hint",
        "--cpu-freq",
    }


def test_job_has_all_options_of_sbatch_that_the_script_passes_through() -> None:
    names = sorted(sbatch_option_names.SITE - sbatch_option_names.NO_VALUE)[:30]
    script = SCRIPT.format("\n".join(f"#SBATCH --{name}=1" for name in names))
    assert len(import_sbatch(script).file["slurm"]["extra"]) == 30


_OPTIONS = st.sampled_from(sorted(sbatch_options.KNOWN))
_VALUES = st.one_of(
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20),
    st.sampled_from(["gpu:a100:4", "1-2:3", "0", "16G", "a,b", "@", "-1", "99999999", "%", "1e9"]),
)
_LINES = st.one_of(
    st.builds("#SBATCH --{}={}".format, _OPTIONS, _VALUES),
    st.builds("#SBATCH --{} {}".format, _OPTIONS, _VALUES),
    st.builds("#SBATCH -{}{}".format, st.sampled_from(sorted(sbatch_option_names.SHORT)), _VALUES),
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40),
)


@given(st.lists(_LINES, max_size=8), st.booleans())
def test_imported_script_always_gives_valid_job_file(lines: list[str], shebang: bool) -> None:
    text = "\n".join([*(["#!/bin/bash"] if shebang else []), *lines])
    refusals: list[str] = []
    try:
        found = import_sbatch(text)
    except ValueError as error:
        refusals.append(str(error))
    if refusals:
        assert re.match(r"line [0-9]+: ", refusals[0])
        return
    file = JobFile.model_validate(found.file)
    (source,) = job_file_reader._parse_job_files("x", render_job_file(found.file).encode())
    assert JobFile.model_validate(source.content) == file
    assert all(1 <= note.line <= text.count("\n") + text.count("\r") + 1 for note in found.notes)


@given(
    st.integers(1, 64),
    st.integers(1, 16),
    st.integers(1, 32),
    st.integers(0, 8),
    st.integers(1, 512),
    st.integers(60, 10**6),
)
def test_amounts_survive_in_every_spelling(
    nodes: int, tasks: int, cpus: int, gpus: int, memory: int, seconds: int
) -> None:
    hours, rest = divmod(seconds, 3_600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}"
    gpu = [f"--gres=gpu:{gpus}"] if gpus else []
    long = [f"--nodes={nodes}", f"--ntasks-per-node={tasks}", f"--cpus-per-task={cpus}"]
    short = [f"-N {nodes}", f"-n{nodes * tasks}", f"-c {cpus}"]
    expected: dict[str, Any] = {"nodes": nodes, "tasks_per_node": tasks, "cpus_per_task": cpus}
    if gpus:
        expected["gpu"] = gpus
    for spelling, options in ((long, None), (short, ["ntasks"])):
        lines = [*spelling, *gpu, f"--mem {memory << 10}", f"-t{clock}"]
        script = SCRIPT.format("\n".join(f"#SBATCH {line}" for line in lines))
        found = import_sbatch(script).file
        assert found["max_duration"] == format_duration(seconds)
        assert found["resources"].pop("sbatch_options", None) == options
        assert found["resources"] == {**expected, "memory": f"{memory}G"} or memory % 1024 == 0
