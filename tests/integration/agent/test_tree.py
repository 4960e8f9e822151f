"""The folder that the agent fills before the job's program starts."""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aitne.agent import main as agent
from aitne.core import tree_document
from aitne.core.tree_document import JobTree, TreeFile, TreeLink
from tests.support import realtime
from tests.support.agents import Job, Platform
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES

CONTENTS = {"bin/run": b"#!/bin/sh\necho ran in $PWD\n", "data/empty": b"", "é \n.txt": b"hello\n"}
GIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def answer(contents: dict[str, bytes] = CONTENTS) -> tuple[str, bytes]:
    """Return the digest of a tree and the platform's answer with it."""
    files = tuple(
        TreeFile(name, len(content), hashlib.sha256(content).hexdigest(), "bin" in name)
        for name, content in sorted(contents.items())
    )
    document = tree_document.serialize_tree(
        JobTree(files, (TreeLink("link", "data/empty"),), None, None)
    )
    body = b"".join(contents[file.path] for file in files)
    return tree_document.compute_tree_digest(document), document + b"\n" + body


def facts(job: Job, **more: Any) -> dict[str, Any]:
    path = str(job.folder / "tree")
    return {"tree": {"path": path, **more}, "workdir": path}


def test_program_starts_in_its_tree(job: Job, platform: Platform) -> None:
    digest, body = answer()
    platform.trees = [(503, b"{}"), (200, body[:-3]), (200, body)]
    code = job.run(
        "bin/run; cat é*; readlink link; ls; touch left",
        url=platform.url,
        **facts(job, digest=digest),
    )
    tree = job.folder / "tree"
    assert code == 0, job.log
    assert job.log.startswith(f"ran in {tree}\nhello\ndata/empty\n")
    assert sorted(path.name for path in tree.iterdir()) == [
        "bin",
        "data",
        "left",
        "link",
        "é \n.txt",
    ]
    assert platform.tokens == {"Bearer the-token"}
    assert not list(job.folder.glob(".tree-*"))


def test_log_appears_in_the_tree(job: Job, platform: Platform) -> None:
    digest, body = answer()
    platform.trees = [(200, body)]
    code = job.run(
        "ls; echo said >&2",
        url=platform.url,
        log_files=("slurm-{j}.out", "data/{j}.err"),
        **facts(job, digest=digest),
    )
    tree = job.folder / "tree"
    assert (code, job.log) == (0, "bin\ndata\nlink\nslurm-12.out\né \n.txt\nsaid\n")
    assert (tree / "slurm-12.out").read_text() == (tree / "data/12.err").read_text() == job.log


def test_attempts_and_tasks_share_one_tree(job: Job, platform: Platform) -> None:
    digest, body = answer()
    platform.trees = [(200, body)]
    command = "echo $SLURM_ARRAY_TASK_ID >> seen; until [ $(wc -l < seen) = 2 ]; do sleep .02; done"
    started = [
        job.start(
            command,
            url=platform.url,
            around={"SLURM_ARRAY_TASK_ID": str(task)},
            **facts(job, digest=digest),
        )
        for task in (0, 1)
    ]
    assert [process.wait(20) for process in started] == [0, 0], job.log
    assert platform.trees == []


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, answer({"a": b"other"})[1], "another tree"),
        (200, answer()[1].replace(b"hello", b"hallo"), "copy of 'é \\n.txt' is damaged"),
        (409, b'{"detail": "It was removed. Submit it again."}', "It was removed."),
    ],
)
def test_tree_that_is_not_whole_starts_nothing(
    job: Job, platform: Platform, status: int, body: bytes, reason: str
) -> None:
    platform.trees = [(status, body)]
    code = job.run("echo started", url=platform.url, **facts(job, digest=answer()[0]))
    assert code == agent.NOT_READY
    assert reason in job.log
    assert "started" not in job.log
    assert not (job.folder / "tree").exists()
    assert not list(job.folder.glob(".tree-*"))
    outcome = json.loads((job.folder / "outcome").read_text())
    assert "the job's files are missing" in outcome["message"]


def test_job_that_is_asked_to_end_waits_for_no_tree(job: Job, platform: Platform) -> None:
    """Another task that fills the folder, or has crashed, keeps no job."""
    path = job.folder / "tree.lock"
    with path.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = job.start("echo started", url=platform.url, **facts(job, digest="0" * 64))
        opened = Path(f"/proc/{process.pid}/fd")
        eventually(
            "the agent waits for the lock",
            lambda: path.resolve() in map(Path.resolve, opened.iterdir()),
        )
        process.terminate()
        assert process.wait(20) == 128 + 15
    assert "started" not in job.log


# --- repositories ----------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], env=GIT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the tag ``v1`` and a later commit on ``main``."""
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "code").mkdir()
    for version in ("one", "two"):
        (folder / "code" / "version").write_text(f"{version}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", version)
        if version == "one":
            git(folder, "tag", "v1")
    return folder


@pytest.mark.parametrize(
    ("ref", "commit", "output"),
    [("main", "main", "two\n"), ("v1", "v1", "one\n"), (None, "main~1", "one\n")],
)
def test_repository_is_cloned_at_its_ref(
    job: Job, platform: Platform, repository: Path, ref: str | None, commit: str, output: str
) -> None:
    commit = git(repository, "rev-parse", commit)
    url = f"file://{repository}"
    named = facts(job, url=url, ref=ref or commit, subdir="code")
    named["workdir"] += "/code"
    program = "cat version; git rev-list HEAD | wc -l; wc -l < log"
    code = job.run(program, url=platform.url, log_files=("log",), **named)
    assert (code, job.log) == (0, f"{output}1\n2\n")
    reports = platform.until(lambda found: any(report.snapshot for report in found))
    (snapshot,) = (report.snapshot for report in reports if report.snapshot)
    assert (snapshot["git"]["commit"], snapshot["git"]["remote"]) == (commit, url)
    assert not snapshot["git"]["dirty"]


@pytest.mark.parametrize(
    ("more", "around", "reason"),
    [
        ({"ref": "never"}, {}, "has no branch, tag or commit never. Push it"),
        ({"url": "file:///nowhere"}, {}, "file:///nowhere cannot be fetched"),
        ({"url": "ext::touch started"}, {}, "cannot be fetched"),
        ({"subdir": "none"}, {}, "has no folder none"),
        ({}, {"PATH": "/nowhere"}, "git is not installed on this node"),
    ],
)
def test_repository_that_cannot_be_had_starts_nothing(
    job: Job,
    platform: Platform,
    repository: Path,
    more: dict[str, str],
    around: dict[str, str],
    reason: str,
) -> None:
    named = facts(job, **{"url": f"file://{repository}", "ref": "main"} | more)
    code = job.run("touch started", url=platform.url, around=around, **named)
    assert code == agent.NOT_READY
    assert reason in job.log
    assert {path.name for path in job.folder.iterdir()} & {"tree", "started"} == set()
    outcome = json.loads((job.folder / "outcome").read_text())
    assert reason.split(":")[0] in outcome["message"]
