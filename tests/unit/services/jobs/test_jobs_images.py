"""Jobs with images, datasets and environments: what is fixed when they are made, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from aitne.adapters.user_folder_operations import OwnUserFolders
from aitne.bootstrap.adapters import make_storages
from aitne.core.errors import InvalidInput
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Node
from aitne.core.models.dataset import Dataset
from aitne.core.models.image import ImageApp, ImageNeeds, ImageState
from aitne.core.models.job_file import JobFile
from aitne.core.models.storage_area import PathFacts
from aitne.core.ports.unix_account_mapping import UnixAccount
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import ContainerSettings, StorageSettings
from tests.support.offers import offers
from tests.support.runtimes import FakeRuntime
from tests.unit.services.conftest import ADA, EVE, PYTORCH, START, Bench, make_node

TO_THE_END = (
    *(JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING),
    *(JobState.RUNNING, JobState.COMPLETED),
)


def job_file(**fields: object) -> JobFile:
    return JobFile.model_validate({"commands": ["true"], **fields})


async def problems(bench: Bench, **fields: object) -> dict[str, str]:
    """Return the problems by field, which plan and creation agree on."""
    with pytest.raises(InvalidInput) as planned:
        await bench.jobs.plan(ADA, job_file(**fields))
    with pytest.raises(InvalidInput) as created:
        await bench.jobs.create(ADA, job_file(**fields))
    assert planned.value.problems == created.value.problems
    return {each.field: each.message for each in created.value.problems}


async def add_dataset(bench: Bench, folder: Path, **fields: object) -> None:
    folder.mkdir()
    values = {
        "name": "div2k",
        "version": "1",
        "owner": "ada",
        "path": str(folder),
        "size_bytes": 1,
        "files": 1,
        "manifest": "a" * 64,
        "projects": ("vision",),
        "created_at": START,
    }
    await bench.store.add_dataset(Dataset.model_validate(values | fields), actor="ada")


def with_cuda(name: str, *features: str) -> Node:
    return make_node(name).model_copy(update={"features": features})


async def test_a_job_keeps_the_image_it_was_given(bench: Bench) -> None:
    job = await bench.create(image="pytorch", container={"network": False})
    newer = PYTORCH.model_copy(update={"version": "2.0"})
    await bench.store.add_image(newer, actor="root")
    spec = (await bench.jobs.get(ADA, job.id)).spec
    assert spec.image_use is not None
    assert (spec.image, spec.runtime, spec.image_use.digest) == (
        "pytorch:1.0",
        "apptainer",
        PYTORCH.artifacts[0].digest,
    )
    assert (spec.container.network, spec.home) == (False, str(Path.home()))


async def test_the_same_again_needs_the_same_image(bench: Bench) -> None:
    job = await bench.walk(await bench.create(image="pytorch"), *TO_THE_END)
    again = (await bench.jobs.resubmit(ADA, job.id)).job
    assert again.spec.image_use == job.spec.image_use
    await bench.store.update_image("pytorch", "1.0", state=ImageState.RETIRED, actor="root")
    with pytest.raises(InvalidInput, match="is retired"):
        await bench.jobs.resubmit(ADA, job.id)


async def test_either_an_image_or_an_environment(bench: Bench) -> None:
    environment = {"modules": ["cuda/12.6"]}
    found = await problems(bench, image="pytorch", environment=environment)
    assert list(found) == ["environment"]
    assert list(await problems(bench, container={"writable": True})) == ["container"]
    job = await bench.create(environment=environment)
    assert job.spec.environment.modules == ("cuda/12.6",)


async def test_a_driver_that_is_too_old_is_said_before_submission(bench: Bench) -> None:
    needs = ImageNeeds(cuda="12.6")
    image = PYTORCH.model_copy(update={"name": "newtorch", "needs": needs})
    await bench.store.add_image(image, actor="root")
    wish = {"image": "newtorch", "resources": {"gpu": "a100:1"}}

    await bench.nodes(with_cuda("n1", "cuda12.4"), with_cuda("n2", "cuda12.8"))
    plan = await bench.jobs.plan(ADA, job_file(**wish))
    assert any(
        "The drivers of n1 are older. n2 can run it." in warning for warning in plan.warnings
    )
    assert not any(
        "driver" in w for w in (await bench.jobs.plan(ADA, job_file(image="newtorch"))).warnings
    )

    h100 = with_cuda("n3", "cuda12.8")
    h100 = h100.model_copy(update={"gpus": (h100.gpus[0].model_copy(update={"type": "h100"}),)})
    await bench.nodes(with_cuda("n1", "cuda12.4"), h100)
    with pytest.raises(InvalidInput) as caught:
        await bench.jobs.create(ADA, job_file(**wish))
    (problem,) = caught.value.problems
    assert problem.field == "image"
    assert "those of n1 are older, the newest 12.4" in problem.message
    assert problem.allowed == "nodes that fit: n3"


async def test_a_job_keeps_the_version_it_reads(bench: Bench, tmp_path: Path) -> None:
    await add_dataset(bench, tmp_path / "v1")
    job = await bench.create(datasets=["div2k"])
    (used,) = job.spec.datasets
    assert (used.name, used.version, used.path) == ("div2k", "1", str(tmp_path / "v1"))
    plan = await bench.jobs.plan(ADA, job_file(datasets=["div2k"]))
    assert any("datasets are links" in warning for warning in plan.warnings)


async def test_data_that_is_away_is_said_before_submission(bench: Bench, tmp_path: Path) -> None:
    await add_dataset(bench, tmp_path / "v1")
    (tmp_path / "v1").rename(tmp_path / "away")
    ((_, message),) = (await problems(bench, datasets=["div2k"])).items()
    assert "cannot be read as div2k: No such file or directory" in message
    (tmp_path / "v1").symlink_to(tmp_path / "away")
    ((_, message),) = (await problems(bench, datasets=["div2k"])).items()
    assert "it now leads to" in message


async def test_all_problems_of_job_file_are_named_together(bench: Bench) -> None:
    found = await problems(
        bench, image="nope", datasets=["nothing"], resources={"cpu": 99}, max_duration="9d"
    )
    assert {"image", "resources.cpu", "max_duration"} < set(found)
    assert "datasets.0" in found


async def test_a_session_needs_the_network(bench: Bench) -> None:
    found = await problems(
        bench, type="session", commands=[], image="pytorch", container={"network": False}
    )
    assert "the session could not be reached" in found["container.network"]


async def test_a_session_has_the_entry_points_that_its_image_has(bench: Bench) -> None:
    session = {"type": "session", "commands": []}
    bare = (await bench.create(**session)).spec
    assert [app.name for app in bare.apps] == ["lab", "tensorboard"]
    lab = ImageApp(python="/opt/jupyter/bin/python")
    for name, apps in (("small", {"lab": lab}), ("large", {"lab": lab, "tensorboard": lab})):
        image = PYTORCH.model_copy(update={"name": name, "apps": apps})
        await bench.store.add_image(image, actor="root")
        made = (await bench.create(**session, image=name)).spec
        assert [app.name for app in made.apps] == list(apps)


async def test_an_image_on_several_nodes_has_to_start_what_runs_there(bench: Bench) -> None:
    await bench.nodes(make_node("n1"), make_node("n2"))
    plan = await bench.jobs.plan(ADA, job_file(image="pytorch", resources={"nodes": 2}))
    assert any("the image must have a program for that" in said for said in plan.warnings)


class Silent(OwnUserFolders):
    """Folders of users on a file system that never answers."""

    async def read_paths(self, account: str | None, paths: Sequence[str]) -> Sequence[PathFacts]:
        return [PathFacts(path=path, problem="its file system does not answer") for path in paths]


async def test_a_container_is_given_the_folders_that_are_there(
    bench: Bench, tmp_path: Path
) -> None:
    folders = [
        {"name": name, "path": f"{tmp_path}/{name}", "make": False}
        for name in ("scratch", "missing", "closed")
    ]
    settings = Settings(
        data_dir=tmp_path, storage=StorageSettings.model_validate({"areas": folders})
    )
    (tmp_path / "scratch").mkdir()
    (tmp_path / "closed").write_text("no folder")
    runtimes = {"apptainer": FakeRuntime("apptainer")}
    bench.jobs._admission._offers = offers(bench.store, settings, runtimes, bench.clock)
    plan = await bench.jobs.plan(ADA, job_file(image="pytorch"))
    assert [area.name for area in plan.spec.areas] == ["scratch"]
    said = " ".join(plan.warnings)
    assert f"not get missing: {tmp_path}/missing: No such file or directory." in said
    assert f"not get closed: {tmp_path}/closed: it is not a folder." in said

    bench.jobs._admission._offers._places = Silent(
        settings.storage, make_storages(settings.storage)
    )
    spec = (await bench.create(image="pytorch")).spec
    assert [area.name for area in spec.areas] == ["scratch", "missing", "closed"]


async def test_an_image_of_ones_own_is_a_file(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chooser = bench.jobs._admission._offers.chooser
    monkeypatch.setattr(chooser, "_settings", ContainerSettings(own_images=True))
    ((field, message),) = (await problems(bench, image=str(tmp_path))).items()
    assert (field, message) == (
        "image",
        f"{tmp_path} is not a file, and a user's own image must be one",
    )


class Elsewhere:
    """A directory service that ends homes with a slash."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def get_account(self, user: str) -> UnixAccount:
        folder = str(self._home / "jobs")
        return UnixAccount(name=None, home=f"{self._home}/", folder=folder, user=user, uid=1)


async def test_a_home_with_a_closing_slash_is_no_obstacle(bench: Bench, tmp_path: Path) -> None:
    bench.jobs._admission._accounts = Elsewhere(tmp_path)
    assert (await bench.create(image="pytorch")).spec.home == str(tmp_path)


async def test_dataset_of_other_user_is_refused(bench: Bench, tmp_path: Path) -> None:
    await add_dataset(bench, tmp_path / "v1")
    with pytest.raises(InvalidInput, match="there is no dataset"):
        await bench.jobs.create(EVE, job_file(datasets=["div2k"]))


async def test_the_plan_says_who_holds_the_job(bench: Bench) -> None:
    memory, cpus = (await bench.jobs.plan(ADA, job_file())).enforcement
    assert memory.startswith("Memory: ")
    assert cpus.startswith("CPUs: ")
