"""The batch script contains no text that a user could have written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.node_software_folder import own_software
from aitne.core.jobs.batch_script import render_script
from aitne.core.models.resources import GpuRequest, Resources, ResourcesFile
from aitne.core.settings import Settings
from aitne.services.jobs.job_renderer import Renderer
from tests.support.jobs import make_job
from tests.support.runtimes import FakeRuntime

HOSTILE = st.one_of(
    st.text(min_size=1, max_size=80).filter(lambda text: "\0" not in text),
    st.sampled_from(
        [
            "$(touch /tmp/pwned)",
            "`id`",
            "a\n#SBATCH --uid=0\n",
            "'; rm -rf ~; '",
            '"$HOME"',
            "\\\n",
            "🦊 ünïcode",
            "{job_id}",
            "${IFS}",
        ]
    ),
)
JOB_ID = UUID("0b4e1b5a-0000-4000-8000-000000000001")


def script(**overrides: object) -> str:
    values: dict[str, object] = {
        "job_id": JOB_ID,
        "attempt": 1,
        "session": False,
        "project": "vision",
        "resources": Resources(),
        "time_limit_s": 3_600,
        "array": None,
        "job_dir": "/data/jobs/1",
        "agent": ("/usr/bin/python3", "-I", "/agent.pyz"),
        **overrides,
    }
    return render_script(**values)  # type: ignore[arg-type]


@given(name=HOSTILE, command=HOSTILE, value=HOSTILE, workdir=HOSTILE)
def test_user_text_changes_no_byte_of_the_script(
    name: str, command: str, value: str, workdir: str
) -> None:
    renderer = Renderer(Settings(data_dir=Path("/data")), {"bare": FakeRuntime()}, own_software())
    plain = make_job(id=JOB_ID)
    spec = plain.spec.model_copy(
        update={
            "name": name,
            "commands": (command,),
            "env": {"X": value},
            "parameters": {"text": value},
            "workdir": workdir,
        }
    )
    hostile = plain.model_copy(update={"name": name, "spec": spec})
    assert renderer.script(hostile) == renderer.script(plain)
    sent = renderer.agent_spec(hostile)
    assert sent.commands == (("bash", "-c", command),)
    assert sent.env["X"] == value
    assert sent.workdir == workdir


@given(st.text(min_size=1, max_size=60).filter(lambda text: "\0" not in text))
def test_paths_are_one_word_each(path: str) -> None:
    word = shlex.quote(path)
    plain = script(job_dir="/JOB/DIR", agent=("/PYTHON",))
    assert script(job_dir=path, agent=(path,)) == plain.replace("/JOB/DIR", word).replace(
        "/PYTHON", word
    )
    assert shlex.split(word) == [path]


@pytest.mark.parametrize("project", ["", "a b", "a\n#SBATCH --uid=0", "$(id)", "-x", "é"])
def test_a_project_that_is_no_plain_word_is_refused(project: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a batch script"):
        script(project=project)


def test_every_type_of_a_job_file_stands_in_the_script() -> None:
    kind, gpu_type = "k" * 40, "NVIDIA " + "t" * 73
    gres = {f"{kind}:{gpu_type}": 1, f"shard:{gpu_type}": 2}
    asked = ResourcesFile.model_validate({"gpu": f"{gpu_type}:2", "gres": gres})
    assert asked.gpu is not None
    text = script(resources=Resources(gpu=asked.gpu, gres=asked.gres or {}))
    assert f"2 {gpu_type} GPUs, 1 {kind}:{gpu_type}, 2 shard:{gpu_type}\n" in text


def test_a_gpu_type_that_is_no_plain_word_is_refused() -> None:
    gpu = GpuRequest.model_construct(count=1, type="a\nb")
    resources = Resources.model_construct(nodes=1, cpu=1, memory_bytes=1, gpu=gpu)
    with pytest.raises(ValueError, match="cannot stand in a batch script"):
        script(resources=resources)


def test_only_a_session_has_a_session_id() -> None:
    assert "AITNE_SESSION_ID" not in script()
    assert f"export AITNE_SESSION_ID={JOB_ID}\n" in script(session=True)


def test_every_directive_of_a_scheduler_is_absent() -> None:
    assert not re.search(r"^#SBATCH", script(array="0-9%2"), re.MULTILINE)
