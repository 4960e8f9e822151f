"""Runtime without containers: programs run directly on the node, with the programs of the session
environment first on the PATH.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aitne.core.errors import InvalidInput
from aitne.core.ports.runtime import ContainerSpec, RuntimeLaunch
from aitne.core.settings import Settings


class BareRuntime:
    """Implementation of ``core.ports.runtime.Runtime`` without containers: programs run directly on
    the node.

    ``session_env`` is the virtual environment whose ``bin`` folder is placed before all other
    folders in the PATH of jobs; None: no folder is added.
    """

    name = "bare"
    serves_images = False

    def __init__(self, settings: Settings, session_env: Path | None = None) -> None:
        self.session_env = session_env

    def refusal(self, *, remote: bool) -> str | None:
        """Return None: this runtime is always available."""
        return None

    def make_launch(self, spec: ContainerSpec) -> RuntimeLaunch:
        """Return a launch with an empty command prefix.

        Raises:
            InvalidInput: ``spec`` has an image, or an option that requires a container.
        """
        if spec.image is not None:
            raise InvalidInput.field(
                "image",
                f"the bare runtime has no image {spec.image.reference!r}",
                value=spec.image.reference,
                allowed=self.name,
            )
        if spec.writable or not spec.network:
            raise InvalidInput.field("container", "without an image there is no container")
        return RuntimeLaunch()

    def list_variables(self) -> Mapping[str, str]:
        """Return the variables of an activated session environment."""
        return {} if self.session_env is None else {"VIRTUAL_ENV": str(self.session_env)}

    def list_path_folders(self) -> tuple[str, ...]:
        """Return the folders to place before all others in the PATH of jobs: the ``bin`` folder of
        the session environment, or none if there is no such environment.
        """
        return () if self.session_env is None else (str(self.session_env / "bin"),)
