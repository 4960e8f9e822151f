"""The runtime without a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.adapters.runtimes.bare import BareRuntime
from aitne.core.errors import InvalidInput
from aitne.core.models.image import ImageUse
from aitne.core.ports.runtime import ContainerSpec, RuntimeLaunch
from aitne.core.settings import Settings

SETTINGS = Settings(data_dir=Path("/srv/aitne"))


def spec(**fields: object) -> ContainerSpec:
    values = {"image": None, "argv": ("true",), "home": "/home/ada", "workdir": "/home/ada"}
    return ContainerSpec.model_validate(values | fields)


def test_the_program_is_run_as_it_is() -> None:
    runtime = BareRuntime(SETTINGS, Path("/envs/session"))
    assert runtime.make_launch(spec()) == RuntimeLaunch()
    assert runtime.list_variables() == {"VIRTUAL_ENV": "/envs/session"}
    assert runtime.list_path_folders() == ("/envs/session/bin",)
    assert BareRuntime(SETTINGS, None).list_variables() == {}
    assert BareRuntime(SETTINGS, None).list_path_folders() == ()


def test_there_are_no_images_and_nothing_that_only_a_container_can_do() -> None:
    runtime = BareRuntime(SETTINGS)
    with pytest.raises(InvalidInput) as caught:
        runtime.make_launch(spec(image=ImageUse(reference="pytorch:1")))
    (problem,) = caught.value.problems
    assert (problem.field, problem.value, problem.allowed) == ("image", "pytorch:1", "bare")
    for wish in ({"writable": True}, {"network": False}):
        with pytest.raises(InvalidInput, match="there is no container"):
            runtime.make_launch(spec(**wish))
