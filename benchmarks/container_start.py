"""Time of programs in containers, compared with bare programs, and time of image builds."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import chown, copyfile
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from aitne.adapters.node_software_folder import agent_archive
from aitne.adapters.runtimes.apptainer import ApptainerRuntime
from aitne.core.jobs.agent_protocol import AgentSpec
from aitne.core.models.image import ImageUse
from aitne.core.ports.runtime import Bind, ContainerSpec, RuntimeLaunch
from aitne.core.settings import Settings
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError
from benchmarks.session import run_session
from benchmarks.stats import Estimate, median, median_ratio
from benchmarks.whole import AITNE, Whole, platform

NAME = "container_start"
MOST_RATIO = 1.3
"""The target of a session's time in an image over its time without one."""
IMAGES = ("base", "jupyter")
USER = "games"
"""An unprivileged account that every Debian has; images run differently for root."""
PYTHON = "/usr/bin/python3"
PROGRAM = ("true",)
BUILD_S = 1_800.0


def measure(*, quick: bool) -> Figure:
    """Build the images, and then measure programs in them."""
    if os.geteuid() != 0:
        raise BenchmarkError("only root can make images and start programs as somebody else")
    with platform(local__cpus="8", local__gpus="none") as whole:
        built = {name: _build(whole, name, fresh=not quick) for name in IMAGES}
        http = whole.http()
        owner = json.loads(http.get("/api/v1/me")[1])["user"]["name"]
        images = {each["name"]: each for each in json.loads(http.get("/api/v1/images")[1])["items"]}
        files = {name: _file_of(images[name]) for name in IMAGES}
        execs = _execs(Path(files["base"]["path"]), 10 if quick else 60)
        run_session(whole, http, owner, "jupyter")
        run_session(whole, http, owner)
        sessions = _in_turn(
            6 if quick else 30,
            lambda: run_session(whole, http, owner, "jupyter").seconds,
            lambda: run_session(whole, http, owner).seconds,
        )
    rows = [
        Row("JupyterLab ready, in the image over bare", "x", median_ratio(sessions), MOST_RATIO),
        Row("in the image", "ms", _ms(ours for ours, _ in sessions)),
        Row("bare", "ms", _ms(bare for _, bare in sessions)),
        Row("exec, platform over plain", "x", median_ratio([(e.ours, e.plain) for e in execs])),
        Row("through the platform", "ms", _ms(e.ours for e in execs)),
        Row("plain", "ms", _ms(e.plain for e in execs)),
        Row("the agent without a container", "ms", _ms(e.agent for e in execs)),
    ]
    for name in IMAGES:
        # Without what a quick run has found in the cache, the time would say something else.
        rows += [] if quick else [Row(f"making {name} from nothing", "s", median([built[name]]))]
        rows.append(Row(f"{name}'s file", "MB", median([files[name]["size_bytes"] / 1e6])))
    return Figure(
        NAME,
        "Programs in containers",
        rows,
        [
            "Both sessions are started through the platform, by `POST /sessions`, until JupyterLab answers "
            "through the public proxy: one in the image `jupyter`, one in the session environment.",
            "Exec is `true` in the image `base`, from start to end, as an ordinary user: by the agent with "
            "the whole command line and mounts of a job, its fence and its outcome; and by "
            "`apptainer exec IMAGE true`.",
            "From nothing: with no layer and no download in the cache, for each of the two. Made once.",
        ],
    )


def _ms(seconds: Iterator[float]) -> Estimate:
    return median([each * 1e3 for each in seconds])


def _in_turn(
    pairs: int, ours: Callable[[], float], theirs: Callable[[], float]
) -> list[tuple[float, float]]:
    """Measure both functions in pairs; the order within a pair alternates."""
    taken = []
    for number in range(pairs):
        if number % 2:
            first = ours()
            taken.append((first, theirs()))
        else:
            first = theirs()
            taken.append((ours(), first))
    return taken


def _build(whole: Whole, name: str, *, fresh: bool) -> float:
    """Return the seconds of `aitne admin image build`."""
    env = {**whole.env, "AITNE_DATA_DIR": str(whole.data_dir)}
    if fresh:
        env["XDG_CACHE_HOME"] = str(whole.folder / f"cache-{name}")
    began = time.perf_counter()
    _run([str(AITNE), "admin", "image", "build", name, "--yes"], env, within_s=BUILD_S)
    return time.perf_counter() - began


def _file_of(image: dict[str, Any]) -> dict[str, Any]:
    """Return the Apptainer artifact of a catalogue image."""
    found: dict[str, Any] = next(
        each for each in image["artifacts"] if each["runtime"] == "apptainer"
    )
    return found


@dataclass(frozen=True, slots=True)
class Exec:
    """Seconds of one program: by the agent in the image, without the agent, by the agent on the node."""

    ours: float
    plain: float
    agent: float


def _execs(sif: Path, times: int) -> list[Exec]:
    with _stage(sif) as stage:
        for run in (stage.in_image, stage.plain, stage.on_node):
            run()
        found = []
        for ours, plain in _in_turn(times, stage.in_image, stage.plain):
            found.append(Exec(ours, plain, stage.on_node()))
        return found


class _Stage:
    """A copy of the image that all accounts can read, and a home folder of the user's own."""

    def __init__(self, folder: Path, sif: Path) -> None:
        self._sif, self._home = folder / sif.name, folder / "home"
        self._agent = folder / "agent.pyz"
        copyfile(sif, self._sif)
        self._agent.write_bytes(agent_archive())
        for path in (folder, self._sif, self._agent):
            path.chmod(0o755)
        self._home.mkdir()
        chown(self._home, USER, pwd.getpwnam(USER).pw_gid)
        self._as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        box = ContainerSpec(
            image=ImageUse(reference="base", path=str(self._sif)),
            argv=(),
            binds=(Bind(source=str(self._home), target=str(self._home), writable=True),),
            home=str(self._home),
            workdir=str(self._home),
        )
        launch = ApptainerRuntime(Settings(data_dir=folder)).make_launch(box)
        self._launch = launch

    def plain(self) -> float:
        """Return the seconds of `apptainer exec` alone."""
        return self._time(["apptainer", "-q", "exec", str(self._sif), *PROGRAM])

    def in_image(self) -> float:
        """Return the seconds of a program that the agent starts in the image, as in a job."""
        return self._by_agent(self._launch)

    def on_node(self) -> float:
        """Return the seconds of a program that the agent starts on the node, without an image."""
        return self._by_agent(RuntimeLaunch())

    def _by_agent(self, launch: RuntimeLaunch) -> float:
        job_id = uuid4()
        folder = self._home / str(job_id)
        folder.mkdir()
        spec = AgentSpec(
            job_id=job_id,
            attempt=1,
            platform_url=None,
            commands=(PROGRAM,),
            workdir=str(self._home),
            launch=launch,
        )
        (folder / "agent.json").write_text(spec.model_dump_json())
        (folder / "token").write_text("none")
        for path in (folder, folder / "agent.json", folder / "token"):
            chown(path, USER, pwd.getpwnam(USER).pw_gid)
        return self._time([PYTHON, "-I", str(self._agent), str(folder)])

    def _time(self, argv: Sequence[str]) -> float:
        env = {"PATH": os.environ["PATH"], "HOME": str(self._home), "LANG": "C.UTF-8"}
        began = time.perf_counter()
        _run([*self._as_user, *argv], env, within_s=60)
        return time.perf_counter() - began


@contextmanager
def _stage(sif: Path) -> Iterator[_Stage]:
    with TemporaryDirectory(prefix="aitne-bench-") as name:
        yield _Stage(Path(name), sif)


def _run(argv: Sequence[str], env: Mapping[str, str], *, within_s: float) -> None:
    done = subprocess.run(
        argv,
        env=env,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout)[-500:]
        raise BenchmarkError(f"{' '.join(argv[:6])} ended with {done.returncode}: {said}")
