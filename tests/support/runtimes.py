"""A container runtime that passes programs on as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aitne.core.ports.runtime import ContainerSpec


class FakeRuntime:
    """Offers ``images`` and adds one variable of its own."""

    def __init__(self, name: str = "bare", images: Sequence[str] = ("bare",)) -> None:
        self.name = name
        self._images = images

    def images(self) -> Sequence[str]:
        """What the test said."""
        return self._images

    def argv(self, spec: ContainerSpec) -> list[str]:
        """Unchanged."""
        return list(spec.argv)

    def environment(self) -> Mapping[str, str]:
        """Those of a virtual environment."""
        return {"VIRTUAL_ENV": "/session"}

    def path(self) -> Sequence[str]:
        """Its programs."""
        return ("/session/bin",)
