"""``aitne admin image`` on a running platform: built, taken in, damaged, retired, collected."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.images.image_folder import digest_of
from aitne.cli.image_registration import load_platform_settings
from aitne.client import Client
from tests.support import realtime
from tests.support.images import need_apptainer
from tests.support.mounts import mounted
from tests.support.platform import AITNE, RunningPlatform
from tests.support.roots import make_archive, make_root
from tests.support.slurm import root_or_skip
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(600),
    realtime.PLATFORM,
]

TINY = """
name: tiny
version: "1"
description: What base has, and a variable.
base: base
env: {{TINY: "it's $HOME"}}
smoke: [{smoke}]
"""


@pytest.fixture(scope="module")
def platform(separate_platform: RunningPlatform) -> RunningPlatform:
    """A platform of the module's own: tests fill its images folder."""
    return separate_platform


@pytest.fixture(scope="module")
def client(platform: RunningPlatform) -> Client:
    need_apptainer()
    root_or_skip()
    return Client(platform.url, platform.token)


@pytest.fixture(scope="module")
def base(platform: RunningPlatform, client: Client) -> dict[str, Any]:
    """The record of ``base``, really built; its layer is kept between runs of the tests."""
    done = platform.aitne("admin", "image", "build", "base", "--yes", "--json", timeout_s=550)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("root") / "tree")


@pytest.fixture(scope="module")
def sif(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("sif") / "tiny.sif"
    cache = {"APPTAINER_CACHEDIR": str(target.parent / "cache")}
    argv = ["apptainer", "-q", "build", str(target), str(root)]
    subprocess.run(argv, env=os.environ | cache, check=True, timeout=60)
    return target


def folder_of(platform: RunningPlatform) -> Path:
    return platform.data_dir / "images"


def files(platform: RunningPlatform) -> set[str]:
    """Return the names of all files in the images folder, unfinished ones too."""
    folder = folder_of(platform)
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


@pytest.fixture
def unchanged(platform: RunningPlatform, client: Client) -> Iterator[None]:
    """Check that the block leaves the folder and the catalogue unchanged."""
    before = files(platform), [image.raw for image in client.images.list()]
    yield
    assert (files(platform), [image.raw for image in client.images.list()]) == before


def in_image(image: dict[str, Any], *command: str) -> str:
    path = next(each["path"] for each in image["artifacts"] if each["runtime"] == "apptainer")
    argv = ["apptainer", "-q", "exec", "--containall", "--no-home", "--no-privs", path, *command]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_base_is_built_offered_and_named_by_its_content(
    platform: RunningPlatform, base: dict[str, Any]
) -> None:
    (artifact,) = [each for each in base["artifacts"] if each["runtime"] == "apptainer"]
    path = Path(artifact["path"])
    assert artifact["digest"] == digest_of(path)
    assert path.name == f"base-{base['version']}-{artifact['digest'][7:19]}.sif"
    assert path.stat().st_mode & 0o777 == 0o644
    assert base["state"] == "offered"
    assert {"bash", "coreutils", "python3"} <= {each["name"] for each in base["packages"]}
    code = "import json, ssl, sqlite3, encodings; print(encodings.__cached__)"
    compiled = in_image(base, "/usr/bin/python3", "-c", code).strip()
    assert in_image(base, "/bin/ls", compiled)  # or every start of Python would compile anew


def test_an_image_tells_nothing_of_the_machine_it_was_made_on(base: dict[str, Any]) -> None:
    argv = ["sh", "-c", "cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null; ls /etc"]
    said = in_image(base, *argv).split()
    assert "://" not in " ".join(said)
    assert "hostname" not in said
    assert in_image(base, "ls", "/etc/apt/apt.conf.d").split() == ["70debconf"]


def test_building_what_is_there_does_nothing(
    platform: RunningPlatform, base: dict[str, Any], unchanged: None
) -> None:
    done = platform.aitne("admin", "image", "build", "base", "--yes", "--json")
    assert (done.returncode, json.loads(done.stdout)["artifacts"]) == (0, base["artifacts"])
    assert "nothing was built" in done.stderr


def own_folder(tmp_path: Path, smoke: str) -> Path:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/image.yaml").write_text(TINY.format(smoke=json.dumps(smoke)))
    return tmp_path / "tiny"


def test_a_folder_of_ones_own_is_built_on_the_layers_of_base(
    platform: RunningPlatform, base: dict[str, Any], tmp_path: Path
) -> None:
    own = own_folder(tmp_path, "true")
    done = platform.aitne("admin", "image", "build", f"{own}/", "--yes", "--json", timeout_s=300)
    assert done.returncode == 0, done.stderr
    assert "Debian layer" not in done.stderr
    found = json.loads(done.stdout)
    assert in_image(found, "sh", "-c", 'printf %s "$TINY"') == "it's $HOME"
    assert found["env"] == {"LANG": "C.UTF-8", "TINY": "it's $HOME"}


def test_an_interrupted_build_leaves_nothing(
    platform: RunningPlatform, base: dict[str, Any], tmp_path: Path, unchanged: None
) -> None:
    sleep = f"sleep 600.{os.getpid()}"  # found among all processes of the machine, tests' too
    own = own_folder(tmp_path, sleep)
    (own / "image.yaml").write_text((own / "image.yaml").read_text().replace('"1"', '"3"'))
    argv = [AITNE, "admin", "image", "build", f"{own}/", "--yes"]
    with subprocess.Popen(argv, env=platform.env, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("Testing the image, 3"):
                break
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 128 + signal.SIGTERM

    def alone() -> bool:
        seen = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
        return sleep not in seen.stdout and str(folder_of(platform)) not in seen.stdout

    eventually("nothing of the build runs", alone, 20)


def take(platform: RunningPlatform, source: Path, version: str, *words: str) -> Any:
    argv = ("admin", "image", "import", "tiny-import", str(source), "--version", version, "--yes")
    return platform.aitne(*argv, "--json", *words, timeout_s=200)


def test_an_image_file_is_taken_in_with_its_bill_and_verified(
    platform: RunningPlatform, client: Client, sif: Path
) -> None:
    words = ("--digest", digest_of(sif), "--cuda", "12.6", "--description", "Tiny")
    done = take(platform, sif, "sif", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["artifacts"][0]["digest"] == digest_of(sif)
    assert found["needs"] == {"cuda": "12.6"}
    assert [(each["source"], each["name"], each["version"]) for each in found["packages"]] == [
        ("debian", "dash", "0.5.12-2"),
        ("python", "tiny", "1.2.3"),
    ]
    assert in_image(found, "/bin/cat", "/var/lib/dpkg/status").startswith("Package: dash")


@pytest.mark.parametrize("kind", ["archive", "folder"])
def test_a_docker_archive_and_a_folder_become_image_files(
    platform: RunningPlatform, client: Client, root: Path, tmp_path: Path, kind: str
) -> None:
    source = root if kind == "folder" else make_archive(root, tmp_path / "tiny.tar")
    done = take(platform, source, kind)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["name"] for each in found["packages"]] == ["dash", "tiny"]
    assert in_image(found, "/bin/sh", "-c", "echo $((6 * 7))") == "42\n"


def test_an_image_that_fails_its_test_is_not_offered(
    platform: RunningPlatform, sif: Path, unchanged: None
) -> None:
    # What is called an interpreter there is a shell, which cannot do what a session begins with.
    done = take(platform, sif, "broken", "--python", "/bin/sh")
    assert done.returncode == 1
    assert "Testing `/bin/sh -c import sys" in done.stderr
    log = Path(done.stderr.rsplit("Full log: ", 1)[1].strip())
    assert "import_early" in log.read_text()


def test_damage_is_noted_and_a_retired_image_is_collected(
    platform: RunningPlatform, client: Client, sif: Path
) -> None:
    done = take(platform, sif, "gone")
    assert done.returncode == 0, done.stderr
    path = Path(json.loads(done.stdout)["artifacts"][0]["path"])
    with path.open("r+b") as stream:
        stream.seek(path.stat().st_size // 2)
        stream.write(b"\0\1\2\3")
    done = platform.aitne("admin", "image", "verify", "tiny-import:gone", "--json")
    assert done.returncode == 1
    assert "has changed" in json.loads(done.stdout)[0]["damage"]
    assert not client.images.get("tiny-import:gone").offered

    assert platform.aitne("admin", "image", "retire", "tiny-import:gone", "--yes").returncode == 0
    orphan = folder_of(platform) / "nobody-1-000000000000.sif"
    orphan.write_bytes(b"x")
    os.utime(orphan, (time.time() - 86_400,) * 2)
    asked = platform.aitne("admin", "image", "gc")
    assert asked.returncode == 2
    assert "retired: tiny-import:gone" in asked.stdout
    assert path.exists()
    done = platform.aitne("admin", "image", "gc", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {"tiny-import:gone", str(orphan)} <= set(said["removed"])
    assert not path.exists()
    assert not orphan.exists()
    assert "tiny-import:gone" not in [image.reference for image in client.images.list()]


def test_bad_sources_are_refused_and_leave_nothing(
    platform: RunningPlatform, sif: Path, tmp_path: Path, unchanged: None
) -> None:
    cut = tmp_path / "cut.sif"
    cut.write_bytes(sif.read_bytes()[:-100_000])
    damaged = tmp_path / "damaged.sif"
    content = bytearray(sif.read_bytes())
    content[-len(content) // 4 :] = b"\xff" * len(content[-len(content) // 4 :])
    damaged.write_bytes(content)
    text = tmp_path / "text.sif"
    text.write_text("This is no image.")
    empty = tmp_path / "empty"
    empty.mkdir()
    for source, words, status, said in (
        (cut, (), 1, "its end is missing"),
        (damaged, (), 1, "failed"),
        (text, (), 2, "is not an image"),
        (empty, (), 2, "has the folders bin and etc"),
        (tmp_path / "nothing", (), 2, "it does not exist"),
        (sif, ("--digest", f"sha256:{'0' * 64}"), 2, "not the expected file"),
        (sif, ("--digest", "sha256:short"), 2, "hexadecimal"),
        (sif, ("--cuda", "twelve"), 2, "--cuda"),
        (sif, ("--python", "python; reboot"), 2, "--python"),
    ):
        done = take(platform, source, "bad", *words)
        assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    for name in ("UPPER", "a;reboot", "$(reboot)", "../x", "x" * 61):
        argv = ("admin", "image", "import", name, str(sif), "--version", "1", "--yes")
        done = platform.aitne(*argv)
        assert (done.returncode, "NAME" in done.stderr) == (2, True), done.stderr
    done = platform.aitne("admin", "image", "build", "ubuntu;reboot", "--yes")
    assert (done.returncode, "base, jupyter" in done.stderr) == (2, True), done.stderr


def test_a_full_disk_is_said_and_nothing_is_left(
    platform: RunningPlatform, root: Path, tmp_path: Path
) -> None:
    # What cannot be squashed: the file becomes larger than anybody would have guessed.
    tree = tmp_path / "large"
    subprocess.run(["cp", "-a", str(root), str(tree)], check=True)
    (tree / "noise").write_bytes(os.urandom(9 << 20))
    before = files(platform)
    with mounted(folder_of(platform), "size=5m", "mode=755") as folder:
        done = take(platform, tree, "full")
        assert done.returncode == 1
        assert "a disk is full" in done.stderr
        assert list(folder.iterdir()) == []
        small = platform.aitne(
            "admin", "image", "build", f"{own_folder(tmp_path, 'true')}/", "--yes"
        )
        assert "are free" in small.stderr or "nothing was built" in small.stderr
    assert files(platform) == before


def test_the_command_has_the_settings_that_the_platform_was_started_with(
    platform: RunningPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `aitne up --scheduler slurm` images_dir depends, and it stands in no file."""
    monkeypatch.setattr(os, "environ", {"HOME": str(platform.home)})
    found = load_platform_settings(Client(data_dir=platform.data_dir))
    assert (found.data_dir, found.port) == (platform.data_dir, platform.port)


def test_without_a_platform_nothing_is_built(tmp_path: Path) -> None:
    root_or_skip()
    environment = os.environ | {"AITNE_DATA_DIR": str(tmp_path), "AITNE_URL": ""}
    argv = [AITNE, "admin", "image", "build", "base", "--yes"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "layer" not in done.stderr


def test_image_commands_are_refused_to_users_without_admin_role(
    platform: RunningPlatform, client: Client, unchanged: None
) -> None:
    client.users.create("eve", password="a long enough password")
    environment = platform.env | {
        "AITNE_TOKEN": platform.token_of("eve"),
        "AITNE_URL": platform.url,
    }
    for words in (("build", "base"), ("verify",), ("retire", "base:1.0.0"), ("gc",)):
        argv = [AITNE, "admin", "image", *words]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
        assert (done.returncode, "administrators" in done.stderr) == (3, True), done.stderr
