"""Tests of the choice of a job's image and runtime."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aitne.core.models.image import Artifact, Image, ImageApp, ImageNeeds, ImageState
from aitne.core.storage.storage_and_container_settings import ContainerSettings
from aitne.services.images.image_chooser import ImageChoice, ImageChooser, ImageRequest
from tests.support.runtimes import FakeRuntime

SIF, OCI = "sha256:" + "a" * 64, "sha256:" + "b" * 64
START = datetime(2026, 1, 1, tzinfo=UTC)


def image(name: str = "torch", version: str = "1.0", *runtimes: str, **fields: object) -> Image:
    artifacts = [
        Artifact(
            runtime=runtime,
            digest=OCI if runtime == "docker" else SIF,
            size_bytes=1,
            path=None if runtime == "docker" else f"/images/{name}.sif",
        )
        for runtime in (runtimes or ("apptainer",))
    ]
    values = {
        "name": name,
        "version": version,
        "artifacts": artifacts,
        "created_at": START + timedelta(days=int(version[0])),
        "created_by": "root",
    }
    return Image.model_validate(values | fields)


def chooser(
    *, docker: str | None = None, apptainer: str | None = None, **settings: object
) -> ImageChooser:
    runtimes = {
        "bare": FakeRuntime(),
        "apptainer": FakeRuntime("apptainer", refusal=apptainer),
        "docker": FakeRuntime("docker", refusal=docker),
    }
    return ImageChooser(runtimes, ContainerSettings.model_validate(settings), remote=False)


def choose(
    reference: str, *images: Image, by: ImageChooser | None = None, **wish: object
) -> ImageChoice:
    values = {"runtime": None, "project": "vision", "apps": ()} | wish
    return (by or chooser()).choose(ImageRequest(reference, **values), images)  # type: ignore[arg-type]


def problem(choice: ImageChoice) -> tuple[str, str, str | None]:
    assert choice.problem is not None
    return choice.problem.field, choice.problem.message, choice.problem.allowed


def test_a_runtime_that_is_there_later_is_used_then() -> None:
    docker = FakeRuntime("docker", refusal="Docker's daemon does not run on this machine.")
    by = ImageChooser({"docker": docker}, ContainerSettings(), remote=False)
    made = image("torch", "1.0", "docker")
    assert "does not run" in problem(choose("torch", made, by=by))[1]
    docker.begins_to_work()
    assert choose("torch", made, by=by).runtime == "docker"


def test_the_newest_version_that_can_be_used_is_taken() -> None:
    old, new = image("torch", "1.0"), image("torch", "2.0")
    assert choose("torch", old, new).use.reference == "torch:2.0"  # type: ignore[union-attr]
    assert choose("torch:1.0", old, new).use.reference == "torch:1.0"  # type: ignore[union-attr]
    retired = new.model_copy(update={"state": ImageState.RETIRED})
    assert choose("torch", old, retired).use.reference == "torch:1.0"  # type: ignore[union-attr]
    field, message, allowed = problem(choose("torch:2.0", old, retired))
    assert (field, allowed) == ("image", "bare, torch")
    assert "torch:2.0 is retired" in message


def test_the_site_prefers_a_runtime_and_a_job_may_name_one() -> None:
    both = image("torch", "1.0", "apptainer", "docker")
    assert choose("torch", both).runtime == "apptainer"
    assert choose("torch", both, by=chooser(runtime="docker")).runtime == "docker"
    chosen = choose("torch", both, runtime="docker")
    assert chosen.use is not None
    assert (chosen.runtime, chosen.use.digest, chosen.use.path) == ("docker", OCI, None)


def test_a_runtime_that_cannot_be_used_says_why() -> None:
    no = chooser(docker="Docker is not for Slurm.")
    both, oci = image("torch", "1.0", "apptainer", "docker"), image("jax", "1.0", "docker")
    assert choose("torch", both, by=no).runtime == "apptainer"
    assert problem(choose("torch", both, by=no, runtime="docker")) == (
        "container.runtime",
        "Docker is not for Slurm.",
        "apptainer",
    )
    assert "Docker is not for Slurm" in problem(choose("jax", both, oci, by=no))[1]
    assert "did you mean 'docker'?" in problem(choose("torch", both, runtime="dokcer"))[1]
    assert problem(choose("jax", both, oci, runtime="apptainer"))[1] == (
        "jax:1.0 is made for docker, not for apptainer"
    )


def test_a_session_needs_an_image_with_its_app() -> None:
    lab = image("jupyter", apps={"lab": ImageApp(python="/opt/jupyter/bin/python")})
    chosen = choose("jupyter", lab, image(), apps=("lab",))
    assert chosen.use is not None
    assert chosen.use.python == "/opt/jupyter/bin/python"
    assert chosen.apps == {"lab"}, "what else of a session it can give"
    field, message, allowed = problem(choose("torch", lab, image(), apps=("lab",)))
    assert (field, message, allowed) == ("image", "torch:1.0 has no app lab", "bare, jupyter")


def test_an_image_of_another_project_and_one_that_is_not_there() -> None:
    theirs = image("secret", projects=("speech",))
    field, message, _ = problem(choose("secret", theirs))
    assert (field, message) == ("image", "secret:1.0 is not for the project vision") or (
        message == "secret is not for the project vision"
    )
    assert "did you mean 'torch'?" in problem(choose("torhc", image()))[1]
    assert problem(choose("nope"))[2] == "bare"


def test_damage_is_said() -> None:
    broken = image(damage="its digest is another")
    assert "is damaged: its digest is another" in problem(choose("torch", broken))[1]


def test_required_cuda_version_is_kept_with_job() -> None:
    chosen = choose("torch", image(needs=ImageNeeds(cuda="12.6"), env={"A": "1"}))
    assert chosen.use is not None
    assert (chosen.use.cuda, chosen.use.env) == ("12.6", {"A": "1"})


def test_user_image_is_accepted_only_if_site_permits() -> None:
    assert "only images of its catalogue" in problem(choose("/home/ada/my.sif"))[1]
    allowed = chooser(own_images=True)
    chosen = choose("/home/ada/my.sif", by=allowed)
    assert chosen.use is not None
    assert (chosen.runtime, chosen.use.path, chosen.use.digest) == (
        "apptainer",
        "/home/ada/my.sif",
        None,
    )
    assert "it is not known" in problem(choose("/home/ada/my.sif", by=allowed, apps=("lab",)))[1]
    assert problem(choose("/home/ada/my.sif", by=allowed, runtime="docker"))[0] == "image"


@pytest.mark.parametrize("runtime", ["apptainer", "docker"])
def test_bare_has_no_container(runtime: str) -> None:
    assert choose("bare").use is None
    assert problem(choose("bare", runtime=runtime))[0] == "container.runtime"
