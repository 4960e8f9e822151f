"""No container specification gives a runtime more than the server permits.

A reader of the tests parses the runtimes' command lines and compares them with lists of the tests.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aitne.adapters.runtimes import _docker_launcher
from aitne.adapters.runtimes.apptainer import ApptainerRuntime
from aitne.adapters.runtimes.docker import DockerRuntime
from aitne.core.errors import InvalidInput
from aitne.core.jobs.bind_mount_rules import BindRoot, check_binds
from aitne.core.models.image import ImageUse
from aitne.core.ports.runtime import Bind, ContainerSpec, RuntimeLaunch, RuntimeLimits
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import ContainerSettings

EXAMPLES = 2_500
DIGEST = "sha256:" + "a" * 64
SIF = "/srv/images/base.sif"
PLACES = ("/proc", "/sys", "/dev", "/run", "/var/run", "/etc", "/.singularity.d")
"""Below them nothing comes from, and nothing goes to."""
Reader = Callable[[list[str], ContainerSpec], None]
ROOTS = (
    BindRoot(source="/home/alice", writable=True),
    BindRoot(source="/scratch/alice", writable=True),
    BindRoot(source="/projects/vision", writable=True),
    BindRoot(source="/projects/vision/data/set", target="/datasets/set"),
    BindRoot(source="/opt/site/launcher", target="/opt/aitne/lab"),
)

_hostile = st.sampled_from(
    [
        "--privileged",
        "--add-caps=all",
        "--keep-privs",
        "--allow-setuid",
        "-B",
        "--",
        "..",
        ".",
        "",
        "~",
        "$HOME",
        "$(id)",
        "`id`",
        ",",
        ":",
        ":rw",
        '"',
        '",type=bind,source=/etc,destination=/etc,"',
        ",ro=false",
        "'",
        "\\",
        "\n",
        "\r\n",
        "\x00",
        "\x1b[2J",
        "{tmp}",
        "{gpus}",
        "docker.sock",
        "proc",
        "etc",
        "var",
        "run",
        "a b",
        "*",
        "; rm -rf /",
        "instance:",
        "docker:",
        "x" * 300,
        "ü",
    ]
)
_word = st.one_of(_hostile, _hostile, st.text(max_size=4))
_glued = st.one_of(_word, st.builds(str.__add__, _word, _hostile))
_start = st.sampled_from(
    [
        *(root.source for root in ROOTS),
        "/home/alicex",
        "/home",
        "/datasets/set",
        "/opt/aitne/lab",
        "",
        "/proc/1/root",
        "/var/run",
        "/dev",
        "/tmp",
        "relative",
        "//home/alice",
    ]
)
_plain = st.sampled_from(["", "/a", "/b c,d", '/q"x', "/n\nl", "/data/set"])
_hostile_path = st.builds(lambda start, part: f"{start}/{part}", _start, _glued)
_path = st.one_of(st.builds(str.__add__, _start, _plain), _hostile_path)


@st.composite
def _binds(draw: st.DrawFn) -> tuple[Bind, ...]:
    found = []
    for _ in range(draw(st.integers(0, 3))):
        source = draw(_path)
        # Most at their own path, or they would all be refused for that alone.
        target = source if draw(st.integers(0, 3)) else draw(_path)
        if draw(st.booleans()):
            for root in ROOTS:
                if root.target is not None and source.startswith(root.source):
                    target = root.target + source[len(root.source) :]
        found.append(Bind(source=source, target=target, writable=draw(st.booleans())))
    return tuple(found)


_absolute = st.one_of(st.just("/home/alice"), _path.map(lambda path: "/" + path.lstrip("/")))
_image = st.builds(
    ImageUse,
    reference=_word,
    digest=st.sampled_from([None, DIGEST, DIGEST]),
    path=st.one_of(st.none(), st.none(), st.just(SIF), _path),
)


def _specs(
    words: st.SearchStrategy[str],
    paths: st.SearchStrategy[str],
    binds: st.SearchStrategy[tuple[Bind, ...]],
) -> st.SearchStrategy[ContainerSpec]:
    return st.builds(
        ContainerSpec,
        image=st.one_of(_image, st.none()),
        argv=st.lists(words, max_size=3).map(tuple),
        binds=binds,
        home=paths,
        workdir=paths,
        gpus=st.booleans(),
        writable=st.booleans(),
        network=st.booleans(),
        limits=st.builds(
            RuntimeLimits,
            memory_bytes=st.one_of(st.none(), st.integers(1, 2**50)),
            cpus=st.one_of(st.none(), st.integers(1, 512)),
        ),
        labels=st.dictionaries(words, words, max_size=2),
    )


def _permitted_bind(start: BindRoot, below: str, writable: bool) -> Bind:
    source = start.source + below
    root = max(
        (root for root in ROOTS if _within(source, root.source)), key=lambda root: len(root.source)
    )
    target = (root.target or root.source) + source.removeprefix(root.source)
    return Bind(source=source, target=target, writable=writable and root.writable)


_permitted_binds = st.builds(
    lambda bind: (bind,),
    st.builds(_permitted_bind, st.sampled_from(ROOTS), _plain, st.booleans()),
)
_permitted_spec = _specs(
    _glued.map(lambda text: text.replace("\0", "")), st.just("/home/alice"), _permitted_binds
)


def _within(path: str, place: str) -> bool:
    return PurePosixPath(path).is_relative_to(place)


def _check_place(path: str) -> None:
    parts = path.split("/")
    assert parts.pop(0) == ""
    assert parts
    assert {"", ".", ".."}.isdisjoint(parts)
    assert path not in ("/tmp", "/var/tmp")
    assert not any(_within(path, place) or _within(place, path) for place in PLACES), path
    assert "docker.sock" not in parts


def _filled(launch: RuntimeLaunch) -> list[str]:
    """Return the command line with its placeholders replaced, as on a node with an NVIDIA GPU."""
    found: list[str] = []
    for part in launch.prefix:
        if part == "{gpus}":
            found += launch.gpu_options["nvidia"]
        else:
            found.append(part.replace("{tmp}", "/local/run"))
    return found


def _read_apptainer(argv: list[str], spec: ContainerSpec) -> None:
    """Assert that every word is known, and that the specification's values are where they belong."""
    words = iter(argv)
    assert [next(words) for _ in range(3)] == ["apptainer", "-q", "exec"]
    seen: Counter[str] = Counter()
    mounts: list[Bind] = []
    for word in words:
        if word == "--mount":
            (row,) = csv.reader(io.StringIO(next(words), newline=""), strict=True)
            assert row[0] == "type=bind"
            assert row[1].startswith("source=")
            assert row[2].startswith("destination=")
            assert row[3:] in ([], ["ro"])
            source, target = row[1].partition("=")[2], row[2].partition("=")[2]
            mounts.append(Bind(source=source, target=target, writable=row[3:] == []))
        elif word in ("--home", "--pwd", "--workdir", "--network"):
            value = next(words)
            seen[word] += 1
            if word == "--home":
                assert value == spec.home
                assert ":" not in value
            if word == "--pwd":
                assert value == spec.workdir
            if word == "--workdir":
                assert value == "/local/run"
            if word == "--network":
                assert value == "none"
        elif word.startswith("-"):
            seen[word] += 1
        else:
            assert spec.image is not None
            assert word == spec.image.path
            assert list(words) == []
    wanted = {
        "--containall",
        "--no-privs",
        "--no-eval",
        "--no-home",
        "--home",
        "--pwd",
        "--workdir",
    }
    if spec.gpus:
        wanted.add("--nv")
    if spec.writable:
        wanted.add("--writable-tmpfs")
    if not spec.network:
        wanted |= {"--net", "--network"}
    assert seen == dict.fromkeys(wanted, 1)
    assert tuple(mounts) == spec.binds


def _read_docker(argv: list[str], spec: ContainerSpec) -> None:
    """Assert the same of Docker's command line, and of the request that the launcher makes from it."""
    assert argv[1:4] == ["-I", "-m", "aitne.adapters.runtimes._docker_launcher"]
    facts, tmp, *rest = argv[4:]
    assert rest == (["--gpus", "--"] if spec.gpus else ["--"])
    options = _docker_launcher.container_options(json.loads(facts), tmp, spec.argv, gpus=spec.gpus)
    assert spec.image is not None
    assert options["Image"] == spec.image.digest
    assert options["Cmd"] == list(spec.argv)
    assert options["Entrypoint"] == []
    assert options["WorkingDir"] == spec.workdir
    assert [line for line in options["Env"] if line.startswith("HOME=")] == [f"HOME={spec.home}"]
    host: dict[str, Any] = dict(options["HostConfig"])
    own, mounts = host["Mounts"][:2], host.pop("Mounts")[2:]
    assert [(each["Source"], each["Target"]) for each in own] == [
        ("/local/run/tmp", "/tmp"),
        ("/local/run/var_tmp", "/var/tmp"),
    ]
    assert all(set(each) == {"Type", "Source", "Target", "ReadOnly"} for each in mounts)
    assert {each["Type"] for each in mounts} <= {"bind"}
    assert spec.binds == tuple(
        Bind(source=each["Source"], target=each["Target"], writable=not each["ReadOnly"])
        for each in mounts
    )
    assert host.pop("CapDrop") == ["ALL"]
    assert host.pop("SecurityOpt") == ["no-new-privileges"]
    assert host.pop("Privileged") is False
    assert host.pop("IpcMode") == "private"
    assert host.pop("NetworkMode") == ("host" if spec.network else "none")
    assert host.pop("ReadonlyRootfs") is not spec.writable
    assert ("DeviceRequests" in host) is spec.gpus
    harmless = {"Init", "GroupAdd", "ShmSize", "LogConfig", "DeviceRequests"}
    assert set(host) - harmless <= {"Memory", "MemorySwap", "NanoCpus"}


RUNTIMES = (
    (ApptainerRuntime, _read_apptainer, ImageUse(reference="base", path=SIF)),
    (DockerRuntime, _read_docker, ImageUse(reference="base", digest=DIGEST)),
)
"""Each runtime with the reader of its command lines and an image that it can run."""
APPTAINERS_OWN = {"APPTAINER_CACHEDIR", "APPTAINER_CONFIGDIR", "APPTAINER_TMPDIR"}


def test_no_description_yields_a_forbidden_option_or_path(tmp_path: Path) -> None:
    site = Settings(data_dir=tmp_path, containers=ContainerSettings())
    runtimes = [(make(site), read, image) for make, read, image in RUNTIMES]
    tried = 0

    def check(spec: ContainerSpec, launch: RuntimeLaunch, read: Reader) -> None:
        for bind in spec.binds:
            _check_place(bind.source)
            _check_place(bind.target)
        argv = _filled(launch)
        assert not [part for part in argv if "\0" in part]
        assert set(launch.env) <= APPTAINERS_OWN
        read(argv, spec)

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(_specs(_glued, _absolute, _binds()))
    def holds(spec: ContainerSpec) -> None:
        nonlocal tried
        tried += 1
        for runtime, read, _ in runtimes:
            try:
                launch = runtime.make_launch(spec)
            except InvalidInput:
                continue
            check(spec, launch, read)

    @settings(suppress_health_check=list(HealthCheck), database=None)
    @given(_permitted_spec)
    def holds_for_permitted(spec: ContainerSpec) -> None:
        for runtime, read, image in runtimes:
            runnable = spec.model_copy(update={"image": image})
            check(runnable, runtime.make_launch(runnable), read)

    holds()
    assert tried >= 2_000
    # Were all refused, nothing would have been looked at.
    holds_for_permitted()


def test_no_bind_leaves_the_folders_that_jobs_may_use() -> None:
    tried = 0

    def check(binds: tuple[Bind, ...]) -> None:
        check_binds(binds, ROOTS)
        for number, bind in enumerate(binds):
            _check_place(bind.source)
            _check_place(bind.target)
            inside = [root for root in ROOTS if _within(bind.source, root.source)]
            root = max(inside, key=lambda each: len(PurePosixPath(each.source).parts))
            below = PurePosixPath(bind.source).relative_to(root.source)
            assert PurePosixPath(bind.target) == PurePosixPath(root.target or root.source) / below
            assert root.writable or not bind.writable
            assert not any(_within(earlier.target, bind.target) for earlier in binds[:number])

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(_binds())
    def holds(binds: tuple[Bind, ...]) -> None:
        nonlocal tried
        tried += 1
        with suppress(InvalidInput):
            check(binds)

    holds()
    assert tried >= 2_000
    # Were all refused, nothing would have been looked at.
    settings(database=None)(given(_permitted_binds)(check))()


@pytest.mark.parametrize(
    ("source", "target", "writable", "says"),
    [
        ("/home/bob", "/home/bob", False, "outside the folders"),
        ("/home/alicex", "/home/alicex", False, "outside the folders"),
        ("/home/alice/../bob", "/home/alice/../bob", False, "plain absolute path"),
        ("/home/alice", "/mnt", False, "must not be bound there"),
        ("/projects/vision/data/set", "/datasets/set", True, "only be bound read-only"),
        ("/projects/vision/data/set", "/projects/vision/data/set", True, "must not be bound there"),
        ("/home/alice/docker.sock", "/home/alice/docker.sock", True, "daemon's socket"),
        ("/", "/", False, "a system folder"),
        ("/proc/1/root", "/proc/1/root", False, "a system folder"),
        ("/var/run/docker.sock", "/var/run/docker.sock", True, "a system folder"),
        ("/home/alice/{tmp}", "/home/alice/{tmp}", True, "a container cannot receive"),
        ("/home/alice/\0", "/home/alice/\0", True, "NUL"),
    ],
)
def test_invalid_bind_mount_is_refused_with_reason(
    source: str, target: str, writable: bool, says: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_binds([Bind(source=source, target=target, writable=writable)], ROOTS)
    assert says in refused.value.message


def test_a_bind_that_would_be_hidden_is_refused() -> None:
    below = Bind(source="/home/alice/a", target="/home/alice/a")
    home = Bind(source="/home/alice", target="/home/alice", writable=True)
    check_binds([home, below], ROOTS)
    for binds in ([below, home], [home, home]):
        with pytest.raises(InvalidInput, match="hide"):
            check_binds(binds, ROOTS)
