"""Container runtime Docker, or Podman through the same API, for a platform on a single machine."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from aitne.core.errors import InvalidInput
from aitne.core.jobs.bind_mount_rules import check_spec
from aitne.core.jobs.states import TerminationReason
from aitne.core.ports.runtime import GPUS, TMP, ContainerSpec, OwnEnding, RuntimeLaunch
from aitne.core.settings import Settings

DEFAULT_URL = "unix:///var/run/docker.sock"
_LAUNCHER = "aitne.adapters.runtimes._docker_launcher"
_ENV_PREFIX = "AITNEENV_"
# Messages of _docker_launcher: its own failures, and what the daemon did to the container.
_ENDINGS = (
    OwnEnding(exit_code=125, words="aitne: Docker's daemon", reason=TerminationReason.FAILED),
    OwnEnding(exit_code=125, words="aitne: ", reason=TerminationReason.START_FAILED),
    OwnEnding(
        exit_code=137,
        words="aitne: the container was ended at its memory limit",
        reason=TerminationReason.OUT_OF_MEMORY,
    ),
)


class DockerRuntime:
    """Implementation of ``core.ports.runtime.Runtime`` with the launcher ``_docker_launcher``.

    The launcher creates the container through the daemon and otherwise behaves like ``apptainer
    exec``: it forwards streams and signals and ends with the program's exit code. It applies
    ``ContainerSpec.limits``, because processes that the daemon starts are in no cgroup of the job.
    """

    name = "docker"
    serves_images = True

    def __init__(self, settings: Settings, session_env: Path | None = None) -> None:
        self._url = settings.containers.docker_url or DEFAULT_URL
        self._cgroup_parent = settings.containers.docker_cgroup_parent

    def refusal(self, *, remote: bool) -> str | None:
        """Return why Docker cannot be used, as a sentence; None if it can. It needs the package
        ``docker`` and the daemon's socket, and on a cluster (``remote``) a cgroup parent.
        """
        if remote and self._cgroup_parent is None:
            return (
                "Docker is for a single machine whose jobs all run as the platform's account: its "
                "daemon's children leave the job's cgroup, so the scheduler could neither limit nor "
                "end them. Use apptainer, or set [containers] docker_cgroup_parent if the site arranges for that"
            )
        if importlib.util.find_spec("docker") is None:
            return "the Python package docker is not installed here: pip install 'aitne[docker]'"
        scheme, _, socket = self._url.partition("://")
        if scheme == "unix" and not remote and not os.path.exists(socket):
            return (
                f"Docker's daemon does not run on this machine: there is no socket {socket}. Start "
                "it, or set its address in [containers] docker_url"
            )
        return None

    def make_launch(self, spec: ContainerSpec) -> RuntimeLaunch:
        """Return a launch whose command prefix is the launcher ``_docker_launcher`` with a description
        of the container.

        Raises:
            InvalidInput: there is no image, the image has no digest in Docker's store, or a bind is
                forbidden.
        """
        check_spec(spec)
        image = spec.image
        if image is None or image.digest is None or image.path is not None:
            raise InvalidInput.field(
                "image",
                "Docker runs images of its own store, and this image is not one of them",
                value=None if image is None else image.reference,
            )
        container = {
            "url": self._url,
            "env_prefix": _ENV_PREFIX,
            "image": image.digest,
            "binds": [[bind.source, bind.target, bind.writable] for bind in spec.binds],
            "home": spec.home,
            "workdir": spec.workdir,
            "writable": spec.writable,
            "network": spec.network,
            "memory_bytes": spec.limits.memory_bytes,
            "cpus": spec.limits.cpus,
            "cgroup_parent": self._cgroup_parent,
            "labels": spec.labels,
        }
        prefix = [sys.executable, "-I", "-m", _LAUNCHER, json.dumps(container), TMP]
        if spec.gpus:
            prefix.append(GPUS)
        return RuntimeLaunch(
            prefix=(*prefix, "--"),
            gpu_options={"nvidia": ("--gpus",)},
            env_prefix=_ENV_PREFIX,
            program=sys.executable,
            forwards_signals=True,
            own_endings=_ENDINGS,
        )

    def list_variables(self) -> Mapping[str, str]:
        """Return no variables: the image's own variables apply."""
        return {}

    def list_path_folders(self) -> tuple[str, ...]:
        """Return no folders: the image's PATH applies."""
        return ()
