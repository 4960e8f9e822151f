"""The job file that is derived from a session and a request for ranks."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from aitne.core.errors import InvalidInput
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.job_file import JobFile
from aitne.core.models.session_ranks_request import RanksFile
from aitne.services.sessions.rank_groups import make_rank_group_file
from tests.support.jobs import make_session

SESSION = make_session(
    name="look",
    spec={
        "image": "torch:2.7",
        "runtime": "apptainer",
        "datasets": (DatasetUse(name="div2k", version="2", path="/d", manifest="b" * 64),),
        "env": {"LR": "0.1", "AITNE_PARAM_ROOT": "~"},
        "secrets": ("API_KEY",),
        "workdir": "~/project",
        "container": {"writable": True},
        "slurm": {"partition": "cpu", "account": "vision"},
    },
)


def derived(**fields: Any) -> JobFile:
    return make_rank_group_file(SESSION, RanksFile.model_validate({"ranks": 4, **fields}))


def test_ranks_have_what_the_session_has_and_resources_of_their_own() -> None:
    file = derived(ranks=16, nodes=4, gpu="a100", cpu=2, memory="8G", slurm={"partition": "gpu"})
    assert (file.project, file.image, file.workdir) == ("vision", "torch:2.7", "~/project")
    assert (file.datasets, file.secrets) == (["div2k:2"], ("API_KEY",))
    assert file.env == {"LR": "0.1"}, "a job file must not set what belongs to the platform"
    assert (file.container.writable, file.container.runtime) == (True, "apptainer")
    assert (file.slurm.partition, file.slurm.account) == ("gpu", "vision")
    assert file.distributed is not None
    assert file.distributed.ranks_per_node == 4
    resources = file.resources
    assert (resources.nodes, resources.cpu, resources.memory) == (4, 8, 32 << 30)
    assert str(resources.gpu) == "a100:4"


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [("a100", "a100:2"), ("a100:2", "a100:4"), ("1g.10gb", "1g.10gb:2"), (1, "2"), ("3", "6")],
)
def test_gpus_are_those_of_each_rank(gpu: object, expected: str) -> None:
    assert str(derived(ranks=4, nodes=2, gpu=gpu).resources.gpu) == expected


def test_nodes_follow_from_the_ranks_of_a_node() -> None:
    file = derived(ranks=8, ranks_per_node=2)
    assert file.resources.nodes == 4


@pytest.mark.parametrize(
    ("fields", "field", "words", "allowed"),
    [
        ({"ranks": 16, "nodes": 3}, "nodes", "not divisible by 3", "1, 2, 4, 8, 16 nodes"),
        ({"ranks": 6, "ranks_per_node": 4}, "ranks_per_node", "not divisible by 4", "1, 2, 3, 6"),
        ({"ranks": 8, "nodes": 2, "ranks_per_node": 2}, "ranks_per_node", "4 on each", "4, or"),
        ({"ranks": 300}, "ranks", "300 ranks on one node", "at most 256 on each node"),
        ({"ranks": 256, "cpu": 100}, "cpu", "request 25600 together", "at most 4096"),
        ({"ranks": 256, "gpu": "a100:9"}, "gpu", "request 2304 together", "at most 1024"),
    ],
)
def test_ranks_that_cannot_be_laid_out_are_refused_with_what_can(
    fields: dict[str, Any], field: str, words: str, allowed: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        derived(**fields)
    (problem,) = refused.value.problems
    assert problem.field == field
    assert words in problem.message
    assert allowed in (problem.allowed or "")


@pytest.mark.parametrize(
    "fields",
    [
        {"ranks": 0},
        {"ranks": 1_000_000},
        {"ranks": "4"},
        {"gpu": "two a100"},
        {"gpu": "2 a100"},
        {"python": "python3"},
        {"python": "/usr/bin/python\n"},
        {"idle": 0},
        {"commands": ["true"]},
    ],
)
def test_hostile_requests_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        derived(**fields)


def test_idle_time_is_a_duration_or_off() -> None:
    assert RanksFile(ranks=1).idle == 900
    assert RanksFile.model_validate({"ranks": 1, "idle": "1h"}).idle == 3_600
    assert RanksFile.model_validate({"ranks": 1, "idle": False}).idle == "off"
