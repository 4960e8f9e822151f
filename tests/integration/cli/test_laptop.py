"""From a laptop that shares nothing with the cluster: login, a job with its code, its log, and again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support import realtime
from tests.support.laptop import ROOT, Laptop
from tests.support.platform import RunningPlatform, on_cluster, run_platform

pytestmark = [
    pytest.mark.long(third=1),
    pytest.mark.platform,
    pytest.mark.timeout(600),
    realtime.PLATFORM,
]

JOB = {
    "name": "laptop",
    "commands": ["./train.sh", "echo used >> data/value"],
    "resources": {"cpu": 1, "memory": "256M"},
    "max_duration": "5m",
}


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    made = Laptop(tmp_path / "laptop", [ROOT, Path("/home"), tmp_path / "cluster"])
    try:
        made.start_connected()
        made.install()
        yield made
    finally:
        made.disconnect()


@pytest.fixture
def platform(
    slurm_cluster: DevCluster, laptop: Laptop, tmp_path: Path
) -> Iterator[RunningPlatform]:
    """A platform on Slurm with TLS of its own CA, at the address that the laptop reaches."""
    running = on_cluster(tmp_path / "cluster", slurm_cluster, "[tls]\nenabled = true")
    running.url = f"https://{laptop.platform_address}:{running.port}"
    settings = running.data_dir / "aitne.toml"
    addresses = (
        f'bind = "0.0.0.0"\npublic_url = "{running.url}"\n'
        f'sessions_url = "https://{laptop.platform_address}:{running.port + 1}"\n'
    )
    settings.write_text(addresses + settings.read_text())
    with run_platform(running):
        yield running


def log_in(laptop: Laptop, platform: RunningPlatform) -> None:
    """Log in as alice, who confirms the code in the portal."""
    ca = platform.aitne("admin", "ca", "init", "--data-dir", str(platform.data_dir)).stdout.strip()
    shutil.copy(ca, laptop.home / "ca.pem")
    login = laptop.start("aitne", "login", platform.url, "--ca-file", "ca.pem")
    assert login.stderr is not None
    code = None
    while code is None:
        line = login.stderr.readline()
        assert line, "the login ended without a code"
        code = re.search(r"enter the code (\S+)", line)
    confirm(platform, code[1])
    _, messages = login.communicate(timeout=60)
    assert login.returncode == 0, messages
    assert "as alice" in messages


def confirm(platform: RunningPlatform, code: str) -> None:
    """Set a password for alice, log in to the portal with it, and confirm the code there."""
    password = {"password": "a new long passphrase"}
    link = platform.aitne("admin", "user", "reset-link", "alice").stdout
    token = re.search(r"#token=(\S+)", link)
    assert token is not None, link
    with httpx.Client(
        base_url=f"{platform.url}/api/v1",
        headers={"Origin": platform.url},
        verify=platform.trust(),
        trust_env=False,
    ) as portal:

        def post(path: str, body: dict[str, object]) -> httpx.Response:
            answer = portal.post(path, json=body)
            assert answer.is_success, answer.text
            return answer

        post("/auth/reset", {"token": token[1], **password})
        me = post("/auth/login", {"username": "alice", **password})
        portal.headers["X-CSRF-Token"] = me.json()["csrf_token"]
        shown = post("/auth/device/lookup", {"user_code": code})
        assert shown.json()["name"].startswith("aitne login on ")
        post("/account/reauthenticate", password)
        post("/auth/device/confirm", {"user_code": code, "expires_in": "1h"})


def test_code_of_a_laptop_runs_on_the_cluster(laptop: Laptop, platform: RunningPlatform) -> None:
    for module in ("fastapi", "sqlalchemy"):
        laptop.run(
            "python", "-c", f"import importlib.util as u; assert not u.find_spec('{module}')"
        )
    laptop.run("sh", "-c", f"! ls {platform.data_dir} && ! ls {ROOT}/backend")
    log_in(laptop, platform)
    project = laptop.home / "project"
    (project / "data").mkdir(parents=True)
    (project / "train.sh").write_text("#!/bin/sh\necho first $(id -un) $(cat data/value)\n")
    (project / "train.sh").chmod(0o755)
    (project / "data" / "value").write_text("42\n")
    (project / "secret.env").write_text("PASSWORD=1\n")
    (project / ".gitignore").write_text("secret.env\n")
    (laptop.home / "job.aitne.yml").write_text(json.dumps(JOB))
    laptop.run("git", "init", "--quiet", folder=project)
    apply = ("aitne", "apply", "../job.aitne.yml", "--sync", ".", "--yes", "--wait", "--json")

    output, messages = laptop.run(*apply, folder=project)

    assert "Uploaded 3 files of 3" in messages
    assert "first alice 42\n" in messages
    job = json.loads(output)
    assert (job["state"], job["account"], job["tree"]["files"]) == ("COMPLETED", "alice", 3)
    (project / "train.sh").write_text("#!/bin/sh\necho second $(cat data/value); ls -a\n")

    output, messages = laptop.run(*apply, folder=project)

    assert "Uploaded 1 file of 3" in messages
    assert "second 42\n.\n..\n.gitignore\ndata\ntrain.sh\n" in messages
    shown, _ = laptop.run("aitne", "show", json.loads(output)["id"])
    assert re.search(r"Tree +3 files, .* sha256 [0-9a-f]{12}", shown)
