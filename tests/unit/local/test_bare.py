"""The runtime without a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.adapters.runtimes.bare import BareRuntime
from aitne.core.errors import InvalidInput
from aitne.core.ports.runtime import ContainerSpec


def test_the_program_is_run_as_it_is() -> None:
    runtime = BareRuntime(Path("/envs/session"))
    spec = ContainerSpec(image="bare", argv=("bash", "-c", "echo '$(x)'"))
    assert runtime.argv(spec) == ["bash", "-c", "echo '$(x)'"]
    assert runtime.images() == ("bare",)
    assert runtime.environment() == {"VIRTUAL_ENV": "/envs/session"}
    assert runtime.path() == ("/envs/session/bin",)
    assert BareRuntime(None).environment() == {}
    assert BareRuntime(None).path() == ()


def test_there_are_no_other_images() -> None:
    with pytest.raises(InvalidInput) as caught:
        BareRuntime().argv(ContainerSpec(image="pytorch", argv=("true",)))
    (problem,) = caught.value.problems
    assert (problem.field, problem.value, problem.allowed) == ("image", "pytorch", "bare")
    with pytest.raises(InvalidInput, match="no program"):
        BareRuntime().argv(ContainerSpec(image="bare", argv=()))
