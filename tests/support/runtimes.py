"""A container runtime that starts programs without a container."""

from __future__ import annotations

from collections.abc import Mapping

from aitne.core.ports.runtime import ContainerSpec, RuntimeLaunch


class FakeRuntime:
    """Puts its own name before a program, and adds one variable where there is no image."""

    def __init__(self, name: str = "bare", *, refusal: str | None = None) -> None:
        self.name = name
        self.serves_images = name != "bare"
        self._refusal = refusal

    def refusal(self, *, remote: bool) -> str | None:
        """Return the refusal that the test has set; None if there is none."""
        return self._refusal

    def begins_to_work(self) -> None:
        """Accept jobs from now on."""
        self._refusal = None

    def make_launch(self, spec: ContainerSpec) -> RuntimeLaunch:
        """Return a launch with the runtime's name before the program."""
        return RuntimeLaunch(prefix=(self.name,) if self.serves_images else ())

    def list_variables(self) -> Mapping[str, str]:
        """Return the variables of a virtual environment."""
        return {} if self.serves_images else {"VIRTUAL_ENV": "/session"}

    def list_path_folders(self) -> tuple[str, ...]:
        """Return the folders of programs in PATH."""
        return () if self.serves_images else ("/session/bin",)
