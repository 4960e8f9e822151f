"""Tests of a container's bind mounts, and of the paths that must exist on the node."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from aitne.core.models.dataset import DatasetUse
from aitne.core.models.image import ImageUse
from aitne.core.models.job import DistributedSpec, Job
from aitne.core.models.job_source import TreeUse
from aitne.core.models.storage_area import Area, AreaKind
from aitne.core.platform.node_software_paths import NodeSoftware
from aitne.core.ports.runtime import Bind, ContainerSpec, RuntimeLimits
from aitne.services.jobs.job_containers import (
    get_agent_workdir,
    list_needed_paths,
    make_cache_variables,
    make_container_spec,
)
from tests.support.jobs import make_job, make_session

SOFTWARE = NodeSoftware(
    agent=("python3", "/shared/sw/agent-1.pyz"),
    launcher=PurePosixPath("/shared/sw/lab-1/launcher.py"),
    spawner=("python3", "-I", "/shared/sw/launcher-1/launcher.pyz"),
    notebook=PurePosixPath("/shared/sw/notebook-1"),
)
SIF = ImageUse(
    reference="torch:1.0",
    digest="sha256:" + "a" * 64,
    path="/images/torch.sif",
    size_bytes=9,
    mtime_ns=8,
)
DATA = DatasetUse(name="div2k", version="2", path="/data/div2k-2", manifest="b" * 64)
SCRATCH = Area(name="scratch", kind=AreaKind.USER, path="/scratch/ada")
FIELDS = {"image_use": SIF, "datasets": (DATA,), "home": "/home/ada", "areas": (SCRATCH,)}


JOB_FOLDER = "/home/ada/.aitne/jobs/1"


def box(job: Job, folder: str = JOB_FOLDER) -> ContainerSpec:
    return make_container_spec(job, folder, SOFTWARE, RuntimeLimits())


def job(**fields: object) -> Job:
    return make_job(spec=FIELDS | fields)


def test_folder_binds_keep_paths_and_datasets_are_read_only() -> None:
    assert box(job()).binds == (
        Bind(source="/data/div2k-2", target="/datasets/div2k"),
        Bind(source="/home/ada", target="/home/ada", writable=True),
        Bind(source="/scratch/ada", target="/scratch/ada", writable=True),
    )


def test_a_job_folder_outside_home_is_seen_too_and_nothing_twice() -> None:
    sources = [bind.source for bind in box(job(), "/srv/aitne/jobs/1").binds]
    assert sources == ["/data/div2k-2", "/home/ada", "/scratch/ada", "/srv/aitne/jobs/1"]
    inside = Area(name="scratch", kind=AreaKind.USER, path="/home/ada/scratch")
    assert [bind.source for bind in box(job(areas=(inside,), datasets=())).binds] == ["/home/ada"]


def test_only_a_session_sees_its_launcher_and_the_packages_of_notebooks() -> None:
    session = make_session(spec=FIELDS)
    assert Bind(source="/shared/sw/lab-1", target="/opt/aitne/lab") in box(session).binds
    assert Bind(source="/shared/sw/notebook-1", target="/opt/aitne/notebook") in box(session).binds
    assert not any(bind.target.startswith("/opt") for bind in box(job()).binds)


def test_only_a_job_with_ranks_sees_what_starts_them() -> None:
    spawner = Bind(source="/shared/sw/launcher-1", target="/opt/aitne/launcher")
    assert spawner in box(job(distributed=DistributedSpec(ranks_per_node=2))).binds


def test_scripts_for_horovod_see_the_packages_beside_what_starts_them() -> None:
    """The launcher looks for them there, so that the image needs no Aitne."""
    packages = Bind(source="/shared/sw/notebook-1", target="/opt/aitne/notebook-1")
    assert packages in box(job(distributed=DistributedSpec(horovod=True))).binds
    assert packages not in box(job(distributed=DistributedSpec())).binds


@pytest.mark.parametrize(
    ("workdir", "inside", "agents"),
    [
        (None, "/home/ada", "/home/ada"),
        ("~", "/home/ada", "/home/ada"),
        ("~/x y", "/home/ada/x y", "/home/ada/x y"),
        ("/scratch/ada/run", "/scratch/ada/run", "/scratch/ada/run"),
        ("~/", "/home/ada", "/home/ada"),
        ("~/x//y/", "/home/ada/x/y", "/home/ada/x/y"),
        ("/scratch/ada/./run/", "/scratch/ada/run", "/scratch/ada/run"),
        ("~/../bob", "/home/ada/../bob", "/"),
        ("/datasets/div2k", "/datasets/div2k", "/"),
        ("/opt/examples", "/opt/examples", "/"),
        ("/scratch/adam", "/scratch/adam", "/"),
    ],
)
def test_where_it_runs(workdir: str | None, inside: str, agents: str) -> None:
    made = box(job(workdir=workdir))
    assert made.workdir == inside
    assert get_agent_workdir(job(workdir=workdir), JOB_FOLDER, made) == agents


@pytest.mark.parametrize("image", [SIF, None])
@pytest.mark.parametrize(
    ("source", "workdir"),
    [
        ({"tree": TreeUse(digest="a" * 64, files=1, size_bytes=1)}, f"{JOB_FOLDER}/tree"),
        ({"repo": {"url": "https://example.org/a", "ref": "main"}}, f"{JOB_FOLDER}/tree"),
        (
            {"repo": {"url": "https://example.org/a", "ref": "main", "subdir": "a/b"}},
            f"{JOB_FOLDER}/tree/a/b",
        ),
    ],
)
def test_job_with_a_source_runs_in_its_own_folder(
    image: ImageUse | None, source: dict[str, object], workdir: str
) -> None:
    """In a container and without one, for all attempts and tasks alike."""
    given = job(**source, image_use=image)
    made = box(given)
    assert get_agent_workdir(given, JOB_FOLDER, made) == workdir
    assert image is None or made.workdir == workdir


def test_needed_paths_of_job_are_listed() -> None:
    image, data, home, scratch = list_needed_paths(job())
    assert (home.what, home.path, home.kind) == ("the home folder", "/home/ada", "folder")
    assert (image.path, image.kind, image.sha256) == ("/images/torch.sif", "file", "a" * 64)
    assert (image.size_bytes, image.mtime_ns, image.within) == (9, 8, ())
    assert (data.path, data.within) == ("/data/div2k-2", ("/data/div2k-2",))
    assert (scratch.what, scratch.path) == ("the scratch folder", "/scratch/ada")


def test_an_own_image_stays_in_its_owners_folders() -> None:
    own = ImageUse(reference="/home/ada/x.sif", path="/home/ada/x.sif")
    image = list_needed_paths(job(image_use=own))[0]
    assert image.within == ("/scratch/ada", "/home/ada")
    assert image.sha256 is None


def test_without_an_image_only_the_datasets_are_needed() -> None:
    assert [need.what for need in list_needed_paths(job(image_use=None))] == ["the dataset div2k:2"]
    bare = box(job(image_use=None))
    assert (bare.image, bare.binds) == (None, ())


def test_caches_go_where_the_site_says() -> None:
    assert make_cache_variables(job().spec) == {}
    found = make_cache_variables(job(caches="/scratch/ada/.cache").spec)
    assert found["XDG_CACHE_HOME"] == "/scratch/ada/.cache"
    assert found["PIP_CACHE_DIR"] == "/scratch/ada/.cache/pip"
    assert found["HF_HOME"] == "/scratch/ada/.cache/huggingface"


def test_a_container_is_not_led_to_caches_that_it_does_not_have() -> None:
    assert make_cache_variables(job(caches="/fast/ada").spec) == {}
    assert make_cache_variables(job(caches="/scratch/ada/.cache", areas=()).spec) == {}
    assert (
        make_cache_variables(job(caches="/fast/ada", image_use=None).spec)["TORCH_HOME"]
        == "/fast/ada/torch"
    )


def test_gpus_network_and_names() -> None:
    mine = job(container={"writable": True, "network": False})
    made = box(mine)
    assert (made.writable, made.network, made.gpus) == (True, False, False)
    assert (made.labels["aitne.job"], made.labels["aitne.attempt"]) == (str(mine.id), "1")
