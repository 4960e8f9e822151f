"""What the documents tell a reader to type does what they say: every command, in its order."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import realtime
from tests.support.platform import RunningPlatform, environments_or_skip
from tests.support.requirements import lacking, need_torch

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(900),
    realtime.PLATFORM,
]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRELUDE = """\
set -euo pipefail
newest() {
  "$ROOT/.venv/bin/aitne" ps --all --json | "$ROOT/.venv/bin/python" -c \\
    'import json, sys; print(json.load(sys.stdin)[0]["id"])'
}
"""


def blocks(page: str, language: str) -> list[str]:
    """The page's blocks in that language."""
    text = (DOCS / page).read_text()
    return [body for kind, body in _BLOCK.findall(text) if kind == language]


def commands(page: str) -> list[str]:
    """What follows the prompts. ``ID`` stands for the job that was submitted last."""
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [re.sub(r"\bID\b", '"$(newest)"', line) for line in typed]


class Reader(RunningPlatform):
    """Somebody in a clone, who types what stands there; the platform is to be started by that."""

    def type(self, lines: list[str]) -> str:
        """Type them one after the other; what was printed."""
        env = {**self.env, "AITNE_PORT": str(self.port), "ROOT": str(ROOT), "VIRTUAL_ENV": ""}
        done = subprocess.run(
            ["bash", "-c", PRELUDE + "\n".join(lines)],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=800,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout[-6_000:]}"
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    if not (ROOT / ".venv" / "bin" / "aitne").exists():
        lacking("hub", "the documents speak of a clone with .venv: make up")
    environments_or_skip()
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        subprocess.run([ROOT / ".venv" / "bin" / "aitne", "down"], env=reader.env, check=False)


START = 'make up ARGS="--detach"'


@pytest.mark.long(third=1)
def test_the_first_session(reader: Reader) -> None:
    said = reader.type(commands("tutorial/first-session.md"))
    assert re.search(r"http://127\.0\.0\.1:\d+/login#link=", said), "a link to log in by"
    assert re.search(r"Ready|READY", said), said
    assert "test accuracy" in said


@pytest.mark.long(third=1)
def test_tutorial_script_runs_on_several_ranks(reader: Reader) -> None:
    need_torch()
    typed = commands("tutorial/distributed.md")
    assert "make distrib" in typed
    said = reader.type([START, *typed])
    assert said.count("accuracy") >= 3


@pytest.mark.long(third=2)
def test_from_python(reader: Reader) -> None:
    said = reader.type([START, *commands("howto/python.md")])
    assert "hello\nbye\nhello: COMPLETED" in said
    assert "seed-0: COMPLETED\nseed-1: COMPLETED\nseed-2: COMPLETED" in said
    assert "resources.cpus" in said
    for number, source in enumerate(blocks("howto/python.md", "python")):
        script = reader.home / f"block{number}.py"
        script.write_text(source)
        reader.type([f".venv/bin/python {script}"])
