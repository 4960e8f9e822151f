"""No container: the program runs on the node as it is, with the session environment first on its PATH."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from aitne.core.errors import InvalidInput
from aitne.core.ports.runtime import ContainerSpec

_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


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
        """PATH that starts with the session environment, as if it were activated."""
        if self.session_env is None:
            return {}
        path = os.environ.get("PATH") or _DEFAULT_PATH
        return {
            "PATH": f"{self.session_env / 'bin'}{os.pathsep}{path}",
            "VIRTUAL_ENV": str(self.session_env),
        }
