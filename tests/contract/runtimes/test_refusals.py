"""Refusals of runtimes that a platform cannot use, and of jobs that a runtime cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.adapters.runtimes.apptainer import ApptainerRuntime
from aitne.adapters.runtimes.docker import DockerRuntime
from aitne.bootstrap.adapters import RUNTIMES
from aitne.core.errors import InvalidInput
from aitne.core.models.image import ImageUse
from aitne.core.ports.runtime import Bind, ContainerSpec
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import ContainerSettings

DIGEST = "sha256:" + "a" * 64
SIF = ImageUse(reference="base:1", digest=DIGEST, path="/srv/images/base.sif")
STORED = ImageUse(reference="base:1", digest=DIGEST)
OWN = ImageUse(reference="/home/alice/x.sif", path="/home/alice/x.sif")


def site(tmp_path: Path, **containers: object) -> Settings:
    return Settings(data_dir=tmp_path, containers=ContainerSettings.model_validate(containers))


def spec(image: ImageUse | None, **changes: object) -> ContainerSpec:
    facts = {"image": image, "argv": ("true",), "home": "/home/alice", "workdir": "/home/alice"}
    return ContainerSpec.model_validate(facts | changes)


def test_on_slurm_docker_needs_a_cgroup_parent(tmp_path: Path) -> None:
    refused = DockerRuntime(site(tmp_path)).refusal(remote=True)
    assert refused is not None
    assert "its daemon's children leave the job's cgroup" in refused
    parent = site(tmp_path, docker_cgroup_parent="/slurm/docker")
    assert DockerRuntime(parent).refusal(remote=True) is None


def test_docker_without_a_daemon_is_refused(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/docker.sock"
    runtime = DockerRuntime(site(tmp_path, docker_url=url))
    refused = runtime.refusal(remote=False)
    assert refused is not None
    assert f"{tmp_path}/docker.sock" in refused
    (tmp_path / "docker.sock").touch()
    assert runtime.refusal(remote=False) is None


def test_apptainer_must_be_on_a_single_machine_but_not_on_a_portal(tmp_path: Path) -> None:
    runtime = ApptainerRuntime(site(tmp_path, apptainer=str(tmp_path / "apptainer")))
    refused = runtime.refusal(remote=False)
    assert refused is not None
    assert "not installed" in refused
    assert runtime.refusal(remote=True) is None


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("apptainer", None),
        ("apptainer", STORED),
        ("docker", None),
        ("docker", SIF),
        ("docker", OWN),
    ],
)
def test_an_image_of_another_kind_is_refused(
    name: str, image: ImageUse | None, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput) as refused:
        RUNTIMES.all()[name](site(tmp_path), None).make_launch(spec(image))
    assert refused.value.problems[0].field == "image"


def test_an_image_file_of_ones_own_is_served(tmp_path: Path) -> None:
    launch = ApptainerRuntime(site(tmp_path)).make_launch(spec(OWN))
    assert launch.prefix[-1] == OWN.path


@pytest.mark.parametrize(("name", "image"), [("apptainer", SIF), ("docker", STORED)])
@pytest.mark.parametrize("place", ["/", "/proc", "/etc", "/run/docker.sock", "/var", "/tmp"])
def test_no_runtime_takes_a_place_of_the_system(
    name: str, image: ImageUse, place: str, tmp_path: Path
) -> None:
    runtime = RUNTIMES.all()[name](site(tmp_path), None)
    for bind in (Bind(source=place, target="/mnt"), Bind(source="/home/alice", target=place)):
        with pytest.raises(InvalidInput, match="a system folder"):
            runtime.make_launch(spec(image, binds=(bind,)))


def test_a_home_that_apptainer_cannot_be_told_of(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="':'"):
        ApptainerRuntime(site(tmp_path)).make_launch(spec(SIF, home="/home/a:b"))


def test_dockers_cgroup_parent_is_handed_on(tmp_path: Path) -> None:
    parent = site(tmp_path, docker_cgroup_parent="/slurm/docker")
    launch = DockerRuntime(parent).make_launch(spec(STORED))
    assert '"cgroup_parent": "/slurm/docker"' in launch.prefix[4]
