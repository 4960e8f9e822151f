"""A platform as a group has it after some weeks: people, projects, jobs of every fate, something announced."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.support.platform import RunningPlatform

CONFIG = '[local]\nnodes = 4\ncpus = 16\nmemory = "64G"\ngpus = "a100:4"\n'
"""Limits that are declared and not measured: the scheduler only counts what jobs request."""

PEOPLE = {
    "mira": ("Mira Solheim", "vision"),
    "anders": ("Anders Vik", "speech"),
    "tove": ("Tove Lindqvist", "vision"),
    "jonas": ("Jonas Brandt", "speech"),
}
END_STATES = ("COMPLETED", "FAILED", "CANCELLED")
_TRAIN = """\
import json, os
rate = float(os.environ.get("AITNE_PARAM_LR", 0.01))
with open(os.path.join(os.environ.get("AITNE_METRICS", "."), "metrics.jsonl"), "w") as metrics:
    for epoch in range(1, 21):
        print(f"epoch {epoch}: loss {2.3 / epoch:.3f}", flush=True)
        values = {"epoch": epoch, "loss": 2.3 / epoch + rate, "accuracy": 0.91 - rate - 0.5 / epoch}
        print(json.dumps(values), file=metrics)
"""
_LOG = 'for n in $(seq 1 400); do echo "step $n of 400: loss $((4000 / n))"; done'


@dataclass
class Filled:
    """Ids by what stands behind them, for the addresses of pages."""

    ids: dict[str, str] = field(default_factory=dict)


class Api:
    """Asks the platform as one person."""

    def __init__(self, url: str, token: str) -> None:
        self._http = httpx.Client(
            base_url=f"{url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=60,
        )

    def __call__(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request, an update with the object's current entity tag; return the answer's JSON."""
        headers = {}
        if method in ("PUT", "PATCH"):
            tag = self._http.get(path).headers.get("etag")
            headers = {} if tag is None else {"If-Match": tag}
        answer = self._http.request(method, path, json=body, headers=headers)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def job(self, name: str, commands: str, **more: Any) -> str:
        """Submit shell commands; the job's id."""
        resources = {"cpu": 2, "memory": "4G", **more.pop("resources", {})}
        file = {
            "type": "job",
            "name": name,
            "commands": commands.splitlines(),
            "resources": resources,
            "max_duration": "2h",
            **more,
        }
        return str(self("POST", "/jobs", file)["id"])

    def close(self) -> None:
        """Close the HTTP connections."""
        self._http.close()


def fill(platform: RunningPlatform) -> Filled:
    """Create all objects that pages can show, and wait for a ready session last."""
    filled = Filled()
    admin = Api(platform.url, platform.token)
    try:
        _people(admin)
        _links(admin, filled)
        _requests(platform, admin)
        _data(platform)
        _image(admin, platform)
        _load(platform)
        _jobs(admin, platform, filled)
        _announcements(admin)
        _sessions(admin, filled)
        for name in ("finished", "failed", "sweep", "tree", "repo"):
            job = filled.ids[name]
            _until(lambda job=job: admin("GET", f"/jobs/{job}")["state"] in END_STATES)
        _until(lambda: admin("GET", f"/jobs/{filled.ids['session']}")["state"] == "READY")
    finally:
        admin.close()
    return filled


def _people(admin: Api) -> None:
    for name, title in (("vision", "Computer vision"), ("speech", "Speech recognition")):
        admin("POST", "/projects", {"name": name, "title": title})
        limits = {"max_gpus": 32, "max_jobs": 40, "max_memory_bytes": "512G"}
        admin("PUT", f"/projects/{name}/limits", limits)
    for name, (display_name, project) in PEOPLE.items():
        person = {"name": name, "display_name": display_name, "default_project": project}
        admin("POST", "/users", person)
    me = admin("GET", "/me")["user"]["name"]
    for project in ("vision", "speech"):
        admin("PUT", f"/projects/{project}/members/{me}", {"role": "manager"})


def _links(admin: Api, filled: Filled) -> None:
    """Create links for visitors who are not logged in, an API token and a secret."""
    invitation = {"role": "member", "max_uses": 5}
    made = admin("POST", "/projects/vision/invitations", invitation)
    filled.ids["invitation"] = _below(made["url"])
    filled.ids["reset"] = _below(admin("POST", "/users/jonas/reset-link")["url"])
    admin("POST", "/tokens", {"name": "laptop", "scopes": ["read", "write"], "expires_in": "30d"})
    admin("PUT", "/secrets/WANDB_API_KEY", {"value": "0123456789abcdef"})


def _requests(platform: RunningPlatform, admin: Api) -> None:
    """Request a project as a user, and let another one end soon."""
    mira = Api(platform.url, platform.token_of("mira"))
    try:
        purpose = "Grasping with the new arm: simulation, then policies."
        mira("POST", "/projects", {"name": "robotics", "title": "Robotics", "reason": purpose})
    finally:
        mira.close()
    soon = datetime.now(UTC) + timedelta(days=9)
    admin("PUT", "/projects/speech/end", {"expires_at": soon.isoformat()})


def _image(admin: Api, platform: RunningPlatform) -> None:
    folder = platform.data_dir / "images"
    folder.mkdir(exist_ok=True)
    file = folder / "pytorch-2.9.sif"
    file.write_bytes(b"not an image, as no job runs in it")
    digest = f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    image = {
        "name": "pytorch",
        "version": "2.9",
        "description": "PyTorch with CUDA 12.6",
        "apps": {"lab": {"python": "/opt/jupyter/bin/python"}},
        "needs": {"cuda": "12.6"},
        "artifacts": [{"runtime": "apptainer", "digest": digest, "path": str(file)}],
        "packages": [
            {"name": "bash", "version": "5.2.15", "source": "debian"},
            {"name": "torch", "version": "2.9.0", "source": "python"},
        ],
        "projects": ["vision"],
    }
    admin("POST", "/images", image)


def _load(platform: RunningPlatform) -> None:
    """Store a week of samples of the cluster's load, which nothing but time makes."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0, tzinfo=None)
    rows = []
    for tens in range(7 * 24 * 6, 6, -1):
        time_of = now - timedelta(minutes=10 * tens)
        share = (1 + math.sin(time_of.timestamp() / 86_400 * 2 * math.pi)) / 2
        cpu, memory, gpu = round(64 * share), round(256 * share) << 30, round(16 * share)
        text = time_of.strftime("%Y-%m-%d %H:%M:%S.%f")
        rows.append((text, 1, 64, cpu, 256 << 30, memory, 16, gpu, round(12 * share)))
    with closing(sqlite3.connect(platform.data_dir / "aitne.db")) as database:
        database.executemany("INSERT INTO cluster_load VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        database.commit()


def _below(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}#{parts.fragment}"


def _data(platform: RunningPlatform) -> None:
    for name, files in (("div2k", 12), ("librispeech", 3)):
        folder = platform.home / name
        folder.mkdir()
        for number in range(files):
            (folder / f"{number:04}.bin").write_bytes(bytes(4_096 * (number + 1)))
        done = platform.aitne("dataset", "add", name, str(folder), "--version", "1", "--yes")
        assert done.returncode == 0, done.stderr


def _jobs(admin: Api, platform: RunningPlatform, filled: Filled) -> None:
    (platform.home / "train.py").write_text(_TRAIN)
    ids = filled.ids
    for number in range(6):
        admin.job(f"preprocess part {number}", "echo done", project="vision")
    ids["finished"] = admin.job("edsr-x2", "python3 train.py", project="vision")
    ids["other"] = admin.job("edsr-x4", "python3 train.py", project="vision")
    ids["failed"] = admin.job(
        "fit speaker model",
        "echo loading the data\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1",
        project="speech",
    )
    ids["array"] = admin.job("evaluate checkpoints", "sleep 3000", array="0-11%4")
    ids["sweep"] = admin.job(
        "learning rates",
        "python3 train.py",
        sweep={"parameters": {"lr": [0.1, 0.01, 0.001]}, "metric": "accuracy", "goal": "max"},
    )
    ids["running"] = admin.job(
        "train diffusion model",
        f"{_LOG}\nsleep 3000",
        resources={"cpu": 8, "memory": "16G", "gpu": "a100:2"},
        project="vision",
    )
    ids["sweeping"] = admin.job(
        "batch sizes",
        "sleep 3000",
        sweep={"parameters": {"batch": [32, 64]}, "metric": "accuracy", "goal": "max"},
    )
    _code(admin, platform, ids)
    cancelled = admin.job("wrong folder", "sleep 3000")
    admin("POST", f"/jobs/{cancelled}/cancel")


def _code(admin: Api, platform: RunningPlatform, ids: dict[str, str]) -> None:
    """Create jobs whose code is an uploaded tree and a Git repository."""
    code = platform.home / "code"
    code.mkdir()
    (code / "train.py").write_text("open('weights.pt', 'w').write('0' * 4096)\n")
    (code / "README.md").write_text("# Training\n")
    who = ("-c", "user.name=Mira", "-c", "user.email=mira@example.org")
    for step in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-q", "-m", "Train")):
        subprocess.run(["git", "-C", str(code), *step], check=True)
    file = code / "job.aitne.yml"
    file.write_text("type: job\nname: train from a laptop\ncommands: [python3 train.py]\n")
    done = platform.aitne("apply", str(file), "--sync", str(code), "--yes", "--json")
    assert done.returncode == 0, done.stderr
    ids["tree"] = str(json.loads(done.stdout)["id"])
    repo = {"url": f"file://{code}", "ref": "main"}
    ids["repo"] = admin.job("train from git", "python3 train.py", repo=repo)


def _sessions(admin: Api, filled: Filled) -> None:
    session = {"type": "session", "template": "jupyterlab", "parameters": {"folder": "~"}}
    ready = admin("POST", "/sessions", {**session, "name": "Diffusion notebooks"})
    filled.ids["session"] = str(ready["id"])
    # One after the other in the line: from here on everything waits.
    filled.ids["waiting"] = admin.job(
        "large language model",
        "sleep 3000",
        resources={"cpu": 16, "memory": "60G", "gpu": "a100:4", "nodes": 4},
        project="vision",
    )
    large = {"cpu": 16, "memory": "60G", "gpu": "a100:4"}
    admin("POST", "/sessions", {**session, "name": "Big model playground", "resources": large})


def _announcements(admin: Api) -> None:
    soon = datetime.now(UTC) + timedelta(days=3)
    text = "The storage is upgraded on Tuesday from 7 to 9 o'clock: jobs wait, nothing is lost."
    admin("POST", "/announcements", {"text": text, "severity": "warning"})
    admin(
        "POST", "/announcements", {"text": "New image: PyTorch 2.9.", "ends_at": soon.isoformat()}
    )


def _until(done: Callable[[], bool], timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("The platform was not filled in time.")
        time.sleep(0.5)


def as_argument(filled: Filled) -> str:
    """Return the ids as JSON, the argument of the browser's script."""
    return json.dumps(filled.ids)
