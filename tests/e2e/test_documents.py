"""Tests that run every command of the documents in its order."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import realtime
from tests.support.browser import walk
from tests.support.documents import NOTEBOOK_TUTORIAL, ROOT, blocks, cells, commands
from tests.support.platform import RunningPlatform, environments_or_skip
from tests.support.requirements import lacking, need_package

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(900),
    realtime.PLATFORM,
]

PRELUDE = """\
set -euo pipefail
newest() {
  "$ROOT/.venv/bin/aitne" ps --all --json | "$ROOT/.venv/bin/python" -c \\
    'import json, sys; print(json.load(sys.stdin)[0]["id"])'
}
"""


class Reader(RunningPlatform):
    """A platform whose user types a document's commands in a clone; one of them starts it."""

    def type(self, lines: list[str]) -> str:
        """Run the lines in one shell; return the output."""
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
    need_package("torch")
    typed = commands("tutorial/distributed.md")
    assert "make distrib" in typed
    said = reader.type([START, *typed])
    assert said.count("accuracy") >= 3


@pytest.mark.browser
@pytest.mark.long(third=1)
def test_tutorial_notebook_trains_on_ranks(reader: Reader, chromium: str, tmp_path: Path) -> None:
    need_package("torch")
    # A session and two ranks need three CPUs, however many this machine has.
    (reader.data_dir / "aitne.toml").write_text("[local]\ncpus = 4\n")
    reader.env["AITNE_DATA_DIR"] = str(reader.data_dir)
    reader.type([START, *commands(NOTEBOOK_TUTORIAL)])
    typed = json.dumps(cells(NOTEBOOK_TUTORIAL))
    walk("tutorial.mjs", reader, reader.token, chromium, tmp_path, typed)


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
