"""The container runtime: how a user's program is put into its environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pydantic import Field

from aitne.core.models.base import Frozen


class ContainerSpec(Frozen):
    """One program to run: the same description for every runtime."""

    image: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = Field(default_factory=dict)
    workdir: str | None = None
    gpus: bool = False


class Runtime(Protocol):
    """One file in ``adapters/runtimes`` fulfils this. Pure: it builds argv and starts nothing."""

    name: str

    def images(self) -> Sequence[str]:
        """The images this runtime offers by itself (``bare``: just ``bare``)."""
        ...

    def argv(self, spec: ContainerSpec) -> list[str]:
        """The complete argument vector. ``env`` is *not* in it: the caller sets it on the process.

        Raises:
            InvalidInput: the image or an option is not one this runtime can serve.
        """
        ...

    def environment(self) -> Mapping[str, str]:
        """Variables the runtime itself adds (``bare``: VIRTUAL_ENV)."""
        ...

    def path(self) -> Sequence[str]:
        """Folders that come before the node's own PATH (``bare``: the session environment's)."""
        ...
