"""Container runtime Apptainer: runs programs in an image file without a daemon, as an ordinary
user.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from aitne.core.errors import InvalidInput
from aitne.core.jobs.bind_mount_rules import check_path, check_spec
from aitne.core.jobs.states import TerminationReason
from aitne.core.ports.runtime import (
    GPUS,
    PROGRAM,
    TMP,
    Bind,
    ContainerSpec,
    OwnEnding,
    RuntimeLaunch,
)
from aitne.core.settings import Settings

_CONTAINED = (
    "--containall",  # its own PID and IPC namespaces, /dev, and no variable of the node
    "--no-privs",  # no capability, not even for root, and no way to gain one
    "--no-eval",  # variables arrive as they are: "$HOME" is not expanded
    "--no-home",  # a home is bound like every other folder, or it is not there
)
# A scheduler that ends a job signals all of its processes (Slurm does). The servers of the image's file
# systems must continue until the program has ended, or it loses its files while it saves its
# state. libfuse does not handle a signal that is already ignored.
_DEAF = f"#!/bin/sh\ntrap '' TERM USR1 USR2\nexec '{PROGRAM}' \"$@\"\n"
_SERVERS = ("squashfuse_ll", "squashfuse", "fuse-overlayfs", "fuse2fs")
_FAILED = OwnEnding(exit_code=255, words="FATAL:", reason=TerminationReason.START_FAILED)


class ApptainerRuntime:
    """Implementation of ``core.ports.runtime.Runtime`` with ``apptainer exec``, tested with 1.4.5.

    ``ContainerSpec.limits`` are ignored, since the scheduler and the agent enforce them: Apptainer
    itself could do so only for root or through systemd. Data written to a ``writable`` image are
    kept in memory, for an ordinary user at most 64 MiB unless ``apptainer.conf`` says otherwise
    (``sessiondir max size``).

    The process of ``apptainer`` forwards signals. When it ends, it ends squashfuse_ll, which serves
    the image's file system; if it is killed, the agent does so, since it becomes the parent of
    squashfuse_ll.
    """

    name = "apptainer"
    serves_images = True

    def __init__(self, settings: Settings, session_env: Path | None = None) -> None:
        self._program = settings.containers.apptainer

    def refusal(self, *, remote: bool) -> str | None:
        """Return why Apptainer cannot be used, as a sentence; None if it can. Without ``remote`` it
        must be installed on this machine; the nodes of a cluster (``remote``) are not checked.
        """
        if remote or shutil.which(self._program) is not None:
            return None
        return (
            f"Apptainer is not installed on this machine: there is no program {self._program!r}. "
            "Install the package apptainer, or name the program in [containers] apptainer"
        )

    def make_launch(self, spec: ContainerSpec) -> RuntimeLaunch:
        """Return the command ``apptainer exec`` with the image, binds and options in ``spec``.

        Raises:
            InvalidInput: there is no image or the image has no file, Apptainer does not accept a
                path, or a bind is forbidden.
        """
        check_spec(spec)
        image = spec.image
        if image is None or image.path is None:
            raise InvalidInput.field(
                "image",
                "Apptainer runs image files, and this image has no file",
                value=None if image is None else image.reference,
            )
        check_path(image.path, "image")
        if ":" in spec.home:
            raise InvalidInput.field(
                "home",
                "Apptainer does not accept a home folder with ':' in its name",
                value=spec.home,
            )
        prefix = [self._program, "-q", "exec", *_CONTAINED, "--home", spec.home]
        prefix += ["--pwd", spec.workdir, "--workdir", TMP]
        if spec.gpus:
            prefix.append(GPUS)
        if spec.writable:
            prefix.append("--writable-tmpfs")
        if not spec.network:
            prefix += ["--net", "--network", "none"]
        for bind in spec.binds:
            prefix += ["--mount", _format_mount(bind)]
        return RuntimeLaunch(
            prefix=(*prefix, image.path),
            gpu_options={"nvidia": ("--nv",), "amd": ("--rocm",)},
            env={
                "APPTAINER_CACHEDIR": f"{TMP}/apptainer/cache",
                "APPTAINER_CONFIGDIR": f"{TMP}/apptainer",
                "APPTAINER_TMPDIR": f"{TMP}/var_tmp",
            },
            env_prefix="APPTAINERENV_",
            helpers=dict.fromkeys(_SERVERS, _DEAF),
            program=self._program,
            forwards_signals=True,
            own_endings=(_FAILED,),
        )

    def list_variables(self) -> Mapping[str, str]:
        """Return no variables: the image's own variables apply."""
        return {}

    def list_path_folders(self) -> tuple[str, ...]:
        """Return no folders: the image's PATH applies."""
        return ()


def _format_mount(bind: Bind) -> str:
    """Return a bind as a CSV line for ``--mount``. Every field is quoted, so that any path is
    accepted.
    """
    fields = ["type=bind", f"source={bind.source}", f"destination={bind.target}"]
    if not bind.writable:
        fields.append("ro")
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)
