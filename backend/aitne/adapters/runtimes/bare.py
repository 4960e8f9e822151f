"""No container: the program runs on the node as it is, with the session environment first on its PATH."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from aitne.core.errors import InvalidInput
from aitne.core.ports.runtime import ContainerSpec


class BareRuntime:
    """Fulfils ``core.ports.runtime.Runtime``. ``session_env`` is a virtual environment, or None."""

    name = "bare"

    def __init__(self, session_env: Path | None = None) -> None:
        self.session_env = session_env

    def images(self) -> Sequence[str]:
        """Just ``bare``: there is nothing to choose from."""
        return (self.name,)

    def argv(self, spec: ContainerSpec) -> list[str]:
        """The program's own arguments.

        Raises:
            InvalidInput: another image than ``bare``, or no program.
        """
        if spec.image != self.name:
            raise InvalidInput.field(
                "image",
                f"the bare runtime has no image {spec.image!r}",
                value=spec.image,
                allowed=self.name,
            )
        if not spec.argv:
            raise InvalidInput.field("commands", "there is no program to run")
        return list(spec.argv)

    def environment(self) -> Mapping[str, str]:
        """As if the session environment were activated."""
        return {} if self.session_env is None else {"VIRTUAL_ENV": str(self.session_env)}

    def path(self) -> Sequence[str]:
        """The session environment's programs come first."""
        return () if self.session_env is None else (str(self.session_env / "bin"),)
