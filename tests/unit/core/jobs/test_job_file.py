"""The job file: accepted content, and errors about other content."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aitne.core.models.job_file import JobFile
from aitne.core.models.job_search import JobSearch
from aitne.core.models.limits import Limits
from aitne.core.models.resources import GpuRequest
from aitne.core.models.session_ranks_request import RanksFile
from aitne.core.sessions.entry_points import server_name, session_url

JOB_ID = UUID("0b4e1b5a-7c1d-4f0e-9a53-2f6f0a7d1c11")


def test_job_file_accepts_all_fields_together() -> None:
    file = JobFile.model_validate(
        {
            "type": "job",
            "name": "edsr 🦊",
            "project": "vision",
            "commands": ["python train.py"],
            "env": {"OMP_NUM_THREADS": "4"},
            "workdir": "~/src",
            "resources": {"nodes": 2, "gpu": "a100:4", "cpu": 32, "memory": "200G"},
            "max_duration": "4h",
            "retry": {"max": 3, "on": ["node_failed", "preempted", "lost"]},
            "array": "0-9%2",
            "after": [str(JOB_ID)],
        }
    )
    assert file.resources.gpu == GpuRequest(count=4, type="a100")
    assert file.resources.memory == 200 << 30
    assert file.max_duration == 4 * 3_600
    assert JobFile.model_validate_json(file.model_dump_json()) == file


def test_infinite_number_of_a_template_arrives_as_one() -> None:
    fields = {"template": "train", "parameters": {"rate": {"$float": "-inf"}, "text": "inf"}}
    file = JobFile.model_validate(fields)
    assert file.parameters == {"rate": float("-inf"), "text": "inf"}
    with pytest.raises(ValidationError):
        JobFile.model_validate({**fields, "parameters": {"rate": {"$float": "1"}}})


def test_type_of_gpus_may_be_as_long_as_slurm_finds_it() -> None:
    name = "nvidia_rtx_pro_6000_blackwell_server_edition"
    resources = {"gpu": f"{name}:2", "gres": {f"shard:{name}": 1}}
    file = JobFile.model_validate({"commands": ["true"], "resources": resources})
    assert file.resources.gpu == GpuRequest(count=2, type=name)
    assert JobSearch(gpu_type=name).gpu_type == name
    assert Limits(max_gpus_by_type={name: 2}).max_gpus_by_type == {name: 2}


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"nmae": "x"}, "nmae", "Extra inputs are not permitted"),
        ({"resources": {"cores": 2}}, "resources.cores", "Extra inputs"),
        ({"resources": {"memory": "16"}}, "resources.memory", "such as 512M or 16G"),
        ({"resources": {"memory": 16_000}}, "resources.memory", "such as 512M or 16G"),
        ({"resources": {"memory": 1.6e10}}, "resources.memory", "such as 512M or 16G"),
        ({"resources": {"cpu": "two"}}, "resources.cpu", "valid integer"),
        ({"resources": {"cpu": 0}}, "resources.cpu", "greater than or equal to 1"),
        ({"resources": {"gpu": "a100"}}, "resources.gpu", "such as a100:4"),
        ({"resources": {"gpu": True}}, "resources.gpu", "such as a100:4"),
        ({"resources": {"gpu": {"count": 1, "type": "a\nb"}}}, "resources.gpu.type", "pattern"),
        ({"resources": {"gpu": {"count": 1, "typ": "a"}}}, "resources.gpu", "such as a100:4"),
        ({"max_duration": "4x"}, "max_duration", "such as 30m"),
        ({"max_duration": "90"}, "max_duration", "'90' has no unit: write a duration such as 30m"),
        ({"max_duration": 90}, "max_duration", "'90' has no unit: write a duration such as 30m"),
        ({"slurm": {"time_min": 90}}, "slurm.time_min", "'90' has no unit"),
        ({"placement": {"compact": "prefer", "wait": 9}}, "placement.wait", "'9' has no unit"),
        ({"max_duration": "0s"}, "max_duration", "greater than or equal to 1"),
        ({"array": "9-0"}, "array", "indices such as 0-9"),
        ({"env": {"SLURM_X": "1"}}, "env", "belongs to the platform"),
        ({"env": {"1X": "1"}}, "env.1X.[key]", "pattern"),
        ({"env": {"X": "a\0b"}}, "env.X", "NUL"),
        ({"env": {f"V{n}": "x" * 30_000 for n in range(20)}}, "env", "all variables together"),
        ({"commands": ["a\0b"]}, "commands.0", "NUL"),
        ({"commands": ["🦊" * 40_000]}, "commands.0", "longer than 120000 bytes"),
        ({"commands": [""]}, "commands.0", "at least 1 character"),
        ({"args": ["a\0b"]}, "args.0", "NUL"),
        ({"args": ["x"] * 1_001}, "args", "at most 1000 items"),
        ({"script_path": "a\0b"}, "script_path", "NUL"),
        (
            {"resources": {"sbatch_options": ["mem"]}},
            "resources.sbatch_options.0",
            "'gpus-per-node'",
        ),
        (
            {"resources": {"sbatch_options": ["mem-per-cpu", "mem-per-gpu"]}},
            "resources",
            "mem-per-cpu or mem-per-gpu, not both",
        ),
        ({"name": ""}, "name", "at least 1 character"),
        ({"name": "a\0"}, "name", "NUL"),
        ({"workdir": "src"}, "workdir", "an absolute path"),
        ({"workdir": "~other/src"}, "workdir", "an absolute path"),
        ({"retry": {"on": ["cancelled"]}}, "retry.on", "is never retried"),
        ({"project": "A b"}, "project", "pattern"),
        ({"after": ["7"]}, "after.0", "UUID"),
        ({"afterany": ["7"]}, "afterany.0", "UUID"),
        ({"begin": "2026-01-31T20:00"}, "begin", "with its time zone"),
        ({"begin": 0}, "begin", "with its time zone"),
        ({"begin": 7_200}, "begin", "a duration of up to 10 years"),
        ({"begin": True}, "begin", "with its time zone"),
        ({"hold": 1}, "hold", "valid boolean"),
        ({"slurm": {"nice": -1}}, "slurm.nice", "greater than or equal to 0"),
        ({"slurm": {"exclude": "n1 n2"}}, "slurm.exclude", "pattern"),
        ({"placement": {"compact": "tight"}}, "placement.compact", "'off', 'prefer' or 'require'"),
        ({"placement": {"order": "file:order.txt"}}, "placement.order", "a path from / or ~/"),
        ({"placement": {"order": "file:~/a\0"}}, "placement.order", "a path from / or ~/"),
        ({"placement": {"mesh": {"tensor": 0}}}, "placement.mesh.tensor", "greater than or equal"),
        ({"placement": {"mesh": {"expert": 2}}}, "placement.mesh.expert", "Extra inputs"),
        ({"placement": {"nodes": ["n1 n2"]}}, "placement.nodes.0", "list without spaces"),
        ({"placement": {"nodes": ["n1\n"]}}, "placement.nodes.0", "list without spaces"),
        ({"placement": {"order": "auto\n"}}, "placement.order", "a path from / or ~/"),
        ({"placement": {"nodes": "n[1"}}, "placement.nodes", "bracket"),
        ({"placement": {"nodes": ["n[1-3]", "n2"]}}, "placement.nodes", "n2 is named twice"),
        ({"placement": {"exclude": "n[0-999999999]"}}, "placement.exclude", "too long"),
        ({"placement": {"exclude": "n[0-999][0-999]"}}, "placement.exclude", "more than 65536"),
        (
            {"placement": {"nodes": "n[1-4]", "exclude": "n3"}},
            "placement",
            "the node n3 is in nodes and in exclude",
        ),
        ({"placement": {"wait": "10m"}}, "placement", "no effect without compact"),
        ({"placement": {"bind": "numa"}}, "placement.bind", "'auto', 'cores' or 'off'"),
        ({"slurm": {"licenses": "a;--uid=0"}}, "slurm.licenses", "pattern"),
    ],
)
def test_invalid_job_file_field_is_named(
    fields: dict[str, object], where: str, message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        JobFile.model_validate(fields)
    (error,) = caught.value.errors()
    assert ".".join(map(str, error["loc"])) == where
    assert message in error["msg"]


def test_job_file_is_printed_with_its_units() -> None:
    written = {
        "resources": {"memory": "200G"},
        "max_duration": "1-12:00:00",
        "inactivity_duration": "off",
        "begin": "2h",
        "slurm": {"time_min": "90m"},
        "placement": {"compact": "prefer", "wait": "10m"},
    }
    file = JobFile.model_validate(written)
    assert file.model_dump(mode="json", exclude_defaults=True) == {
        **written,
        "max_duration": "1d12h",
        "slurm": {"time_min": "1h30m"},
    }
    assert JobFile.model_validate(file.model_dump(mode="json")) == file
    with pytest.raises(ValidationError, match="has no unit"):
        RanksFile.model_validate({"ranks": 2, "idle": 900})


@given(st.text(min_size=1, max_size=200).filter(lambda text: "\0" not in text))
def test_any_name_comes_back_unchanged(name: str) -> None:
    file = JobFile(name=name, commands=[name], env={"X": name})
    again = JobFile.model_validate_json(file.model_dump_json())
    assert (again.name, again.commands, again.env) == (name, [name], {"X": name})


@given(
    st.one_of(
        st.text(max_size=40),
        st.datetimes().map(lambda time: time.isoformat()),
        st.datetimes(timezones=st.timezones()).map(lambda time: time.isoformat()),
        st.integers(),
        st.floats(),
        st.integers(0, 10**6).map(lambda count: f"{count}m"),
    )
)
def test_begin_is_a_time_with_its_zone_or_seconds_or_refused(value: object) -> None:
    try:
        begin = JobFile.model_validate({"begin": value}).begin
    except ValidationError:
        return
    again = JobFile.model_validate_json(
        JobFile.model_validate({"begin": value}).model_dump_json()
    ).begin
    assert again == begin
    if isinstance(begin, datetime):
        assert begin.tzinfo is not None
    else:
        assert begin is not None
        assert 1 <= begin <= 10 * 365 * 86_400


def test_a_sessions_server_has_a_name_the_hub_takes() -> None:
    assert server_name(JOB_ID) == "s-0b4e1b5a7c1d"
    assert (
        session_url("http://127.0.0.1:8001", "ada", JOB_ID)
        == "http://127.0.0.1:8001/user/ada/s-0b4e1b5a7c1d/lab"
    )
