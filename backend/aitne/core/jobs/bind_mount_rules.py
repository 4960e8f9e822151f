"""Rules that determine what may be mounted into a container; all code uses these.

They examine only paths. A symbolic link that leads out of a permitted folder is detected by the
agent on the node, which resolves it (``AgentNeed.within``).
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from aitne.core.errors import InvalidInput
from aitne.core.models.base import Frozen
from aitne.core.ports.runtime import GPUS, TMP, Bind, ContainerSpec

SYSTEM_PLACES = (
    "/.singularity.d",
    "/dev",
    "/etc",
    "/proc",
    "/run",
    "/sys",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/run",
)
"""Paths that are never used for bind mounts, neither as source nor as target, and neither are the
paths below and above them.
"""
TEMPORARY_PLACES = ("/tmp", "/var/tmp")  # noqa: S108 - they are the container's own
"""Paths of temporary folders, of which each container has its own; only folders below them may be
mounted.
"""
SOCKETS = frozenset({"containerd.sock", "crio.sock", "docker.sock", "podman.sock"})
_PATH_LENGTH = 4000


class BindRoot(Frozen):
    """Folder or file that may be mounted into containers, with everything below it."""

    source: str
    target: str | None = None
    """Path in the container; None: the same path as on the node."""
    writable: bool = False


def check_binds(binds: Sequence[Bind], roots: Sequence[BindRoot]) -> None:
    """Check that each bind mount is below a permitted folder (``roots``), has the target that the
    folder prescribes, and is writable only if the folder is.

    If permitted folders are nested, the innermost one that contains the source of the bind mount
    applies.

    Raises:
        InvalidInput: a bind mount is not below a permitted folder, has a wrong target, is writable
            in a read-only folder, covers a system folder, has the same target as another one, or is
            hidden by a later one.
    """
    check_bind_paths(binds)
    for bind in binds:
        around = [root for root in roots if _is_within(bind.source, root.source)]
        if not around:
            raise _make_bind_error(bind.source, "it is outside the folders that jobs may use")
        deepest = max(len(root.source) for root in around)
        choices = [root for root in around if len(root.source) == deepest]
        if not any(bind.target == _map_into_container(bind.source, root) for root in choices):
            raise _make_bind_error(bind.target, f"{bind.source} must not be bound there")
        if bind.writable and not any(root.writable for root in choices):
            raise _make_bind_error(bind.source, "it can only be bound read-only")


def check_bind_paths(binds: Sequence[Bind]) -> None:
    """Check the rules for bind mounts that do not depend on the permitted folders.

    Raises:
        InvalidInput: as ``check_binds``, except for the permitted folders.
    """
    targets: list[str] = []
    for bind in binds:
        for path in (bind.source, bind.target):
            check_path(path, "binds")
            _check_no_system_path(path)
        if any(_is_within(earlier, bind.target) for earlier in targets):
            raise _make_bind_error(bind.target, "it would hide an earlier bind")
        targets.append(bind.target)


def check_spec(spec: ContainerSpec) -> None:
    """Check the rules that apply to a container with any runtime.

    Raises:
        InvalidInput: a bind mount or path is not permitted, or a program cannot receive a text.
    """
    check_bind_paths(spec.binds)
    check_path(spec.home, "home")
    check_path(spec.workdir, "workdir")
    for part in spec.argv:
        check_text(part, "argv")
    for name, value in spec.labels.items():
        check_text(name, "labels")
        check_text(value, "labels")


def check_path(path: str, field: str) -> None:
    """Check that a path is absolute and normalized, and that all runtimes accept it; ``field`` is
    named in the error.

    Raises:
        InvalidInput: the path is not absolute and normalized, or a runtime does not accept it.
    """
    check_text(path, field)
    if len(path) > _PATH_LENGTH:
        raise InvalidInput.field(
            field, f"a path of {len(path)} characters is too long", allowed=f"up to {_PATH_LENGTH}"
        )
    if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path:
        raise InvalidInput.field(
            field,
            f"{path!r} is not a plain absolute path",
            value=path,
            allowed="an absolute path without '.', '..' and repeated or trailing '/'",
        )
    for mark in (TMP, GPUS, "\r\n"):
        if mark in path:
            raise InvalidInput.field(
                field, f"{path!r} contains {mark!r}, which a container cannot receive", value=path
            )


def check_text(text: str, field: str) -> None:
    """Check that the text can be passed to a program; ``field`` is named in the error.

    Raises:
        InvalidInput: the text contains a NUL character.
    """
    if "\0" in text:
        raise InvalidInput.field(field, f"{text!r} contains a NUL character", value=repr(text))


def _check_no_system_path(path: str) -> None:
    if path in TEMPORARY_PLACES or any(
        _is_within(path, place) or _is_within(place, path) for place in SYSTEM_PLACES
    ):
        raise _make_bind_error(path, "it is a system folder")
    if not SOCKETS.isdisjoint(path.split("/")):
        raise _make_bind_error(path, "it is a container daemon's socket")


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _map_into_container(source: str, root: BindRoot) -> str:
    return source if root.target is None else root.target + source[len(root.source) :]


def _make_bind_error(path: str, reason: str) -> InvalidInput:
    return InvalidInput.field("binds", f"{path} cannot be bound: {reason}", value=path)
