"""The one place that defines what may be bound into a container.

It examines names alone. A name that leads elsewhere by a symbolic link is detected where the link
is: the agent on the node resolves it (``AgentNeed.within``).
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
"""Paths that are never bound, as source or target; neither are those below and above them."""
TEMPORARY_PLACES = ("/tmp", "/var/tmp")  # noqa: S108 - they are the container's own
"""The container has its own; folders below them may be bound."""
SOCKETS = frozenset({"containerd.sock", "crio.sock", "docker.sock", "podman.sock"})
_PATH_LENGTH = 4000


class BindRoot(Frozen):
    """A folder or file that may be bound into containers, with everything below it."""

    source: str
    target: str | None = None
    """Path in the container; None: the same as outside."""
    writable: bool = False


def check_binds(binds: Sequence[Bind], roots: Sequence[BindRoot]) -> None:
    """Check that every bind lies in a root, keeps the root's target, and is writable only if the
    root is.

    If roots are nested, the rules of the deepest root that contains the bind apply.

    Raises:
        InvalidInput: a bind lies outside the roots, has another target than its root, is writable
            in a read-only root, is of or over a system folder, has the target of another bind, or
            is hidden by a later bind.
    """
    check_paths(binds)
    for bind in binds:
        around = [root for root in roots if _within(bind.source, root.source)]
        if not around:
            raise _refused(bind.source, "it is outside the folders that jobs may use")
        deepest = max(len(root.source) for root in around)
        choices = [root for root in around if len(root.source) == deepest]
        if not any(bind.target == _seen_as(bind.source, root) for root in choices):
            raise _refused(bind.target, f"{bind.source} must not be bound there")
        if bind.writable and not any(root.writable for root in choices):
            raise _refused(bind.source, "it can only be bound read-only")


def check_paths(binds: Sequence[Bind]) -> None:
    """Check the rules for binds that do not depend on the roots.

    Raises:
        InvalidInput: as ``check_binds``, but for the roots.
    """
    targets: list[str] = []
    for bind in binds:
        for path in (bind.source, bind.target):
            check_path(path, "binds")
            _check_place(path)
        if any(_within(earlier, bind.target) for earlier in targets):
            raise _refused(bind.target, "it would hide an earlier bind")
        targets.append(bind.target)


def check_spec(spec: ContainerSpec) -> None:
    """Check the rules for every container, whatever its runtime.

    Raises:
        InvalidInput: a bind or path that no container gets, or text that no program can receive.
    """
    check_paths(spec.binds)
    check_path(spec.home, "home")
    check_path(spec.workdir, "workdir")
    for part in spec.argv:
        check_text(part, "argv")
    for name, value in spec.labels.items():
        check_text(name, "labels")
        check_text(value, "labels")


def check_path(path: str, field: str) -> None:
    """Check that a path is absolute and normalized, and that every runtime can take it.

    Raises:
        InvalidInput: the path is not absolute and normalized, or a runtime cannot take it.
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
    """Check that the text can be passed to a program.

    Raises:
        InvalidInput: the text contains a NUL character.
    """
    if "\0" in text:
        raise InvalidInput.field(field, f"{text!r} contains a NUL character", value=repr(text))


def _check_place(path: str) -> None:
    if path in TEMPORARY_PLACES or any(
        _within(path, place) or _within(place, path) for place in SYSTEM_PLACES
    ):
        raise _refused(path, "it is a system folder")
    if not SOCKETS.isdisjoint(path.split("/")):
        raise _refused(path, "it is a container daemon's socket")


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _seen_as(source: str, root: BindRoot) -> str:
    return source if root.target is None else root.target + source[len(root.source) :]


def _refused(path: str, reason: str) -> InvalidInput:
    return InvalidInput.field("binds", f"{path} cannot be bound: {reason}", value=path)
