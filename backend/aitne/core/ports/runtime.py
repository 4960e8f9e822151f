"""Container runtime: how a user's program is started in a container or directly on the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pydantic import Field

from aitne.core.jobs.states import TerminationReason
from aitne.core.models.base import Frozen
from aitne.core.models.image import ImageUse

GPUS = "{gpus}"
"""Placeholder in ``RuntimeLaunch.prefix``, a whole argument, which the agent replaces by the
options for the node's GPUs.
"""
TMP = "{tmp}"
"""Placeholder in ``RuntimeLaunch.prefix`` and ``RuntimeLaunch.env`` for a folder on the disk of the
node. The agent creates it for the run (mode 0700) and removes it afterwards. It contains the
folders ``tmp`` and ``var_tmp``.
"""


PROGRAM = "{program}"
"""Placeholder in ``RuntimeLaunch.helpers`` for the path of the node's program of the same name."""


class Bind(Frozen):
    """Bind mount: a folder or file of the node (``source``) that is visible in the container
    (``target``).
    """

    source: str
    target: str
    writable: bool = False


class RuntimeLimits(Frozen):
    """Limits of memory and CPUs that the container runtime has to enforce. A limit that is None is
    enforced by the scheduler or the agent, or not at all.
    """

    memory_bytes: int | None = None
    cpus: int | None = None


class ContainerSpec(Frozen):
    """Description of one program to run in a container, the same for every runtime.

    It contains no environment variables: the agent passes them separately
    (``RuntimeLaunch.env_prefix``), so that their values appear in no argument vector.
    """

    image: ImageUse | None
    """Image to use; None: the program runs directly on the node."""
    argv: tuple[str, ...]
    binds: tuple[Bind, ...] = ()
    """Bind mounts; no two have the same target, and a target below another one comes after it."""
    home: str = Field(pattern=r"^/")
    workdir: str = Field(pattern=r"^/")
    gpus: bool = False
    writable: bool = False
    """Whether programs can change the image's own files; the changes are discarded when the
    container ends.
    """
    network: bool = True
    """Whether the program uses the node's network; False: only the loopback interface."""
    limits: RuntimeLimits = RuntimeLimits()
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels with names of the job, for runtimes that store labels of containers."""


class OwnEnding(Frozen):
    """Exit of the program that starts the container for another reason than the end of the user's
    program, such as a missing image, and how to recognize it.
    """

    exit_code: int
    words: str
    """Beginning of the last line of the log in this case; the text after its first colon is shown
    to the user.
    """
    reason: TerminationReason


class RuntimeLaunch(Frozen):
    """Instructions for the agent on how to start programs in a container: the command prefix and
    the environment. The agent fills in what only the node knows, such as its GPUs.
    """

    prefix: tuple[str, ...] = ()
    """Arguments that are placed before a program's own arguments."""
    gpu_options: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Replacement of ``GPUS`` by the vendor of the node's GPUs (``nvidia``, ``amd``); nothing for a
    node without GPUs or with another vendor.
    """
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the program that starts the container."""
    env_prefix: str | None = None
    """Prefix of the names of the program's variables when they are passed to the program that
    starts the container.

    The latter then gets only these, ``env``, and a fixed PATH, LANG and HOME. None: the program's
    variables are set without a prefix, in addition to the agent's own.
    """
    helpers: dict[str, str] = Field(default_factory=dict)
    """Scripts of /bin/sh by the name of a program that the program which starts the container
    calls. If the node has a program of that name, the agent places the script before it on PATH.
    """
    program: str | None = None
    """Program that must be installed on the node; the agent reports it if it is missing."""
    forwards_signals: bool = False
    """Whether the program that starts the container forwards signals.

    Then the agent sends signals only to it, not to its whole process group: programs in the
    container belong to that group and would get each signal twice.
    """
    own_endings: tuple[OwnEnding, ...] = ()
    """Exits that are not caused by the user's program; the first match is used. A program that ends
    with the same exit code and text also matches.
    """


class Runtime(Protocol):
    """Port to a container runtime. Each module in ``adapters/runtimes`` has one implementation,
    which is created with ``(settings, session_env)``.

    It only creates argument vectors and has no side effects; the agent starts the programs.
    """

    name: str
    serves_images: bool
    """Whether programs run in containers of images; False: they run directly on the node."""

    def refusal(self, *, remote: bool) -> str | None:
        """Return why this platform cannot use the runtime, as a sentence; None if it can.

        ``remote`` is True if containers run on other machines than the platform, or under other
        accounts.
        """
        ...

    def make_launch(self, spec: ContainerSpec) -> RuntimeLaunch:
        """Return the instructions for starting the program of ``spec``; the complete argument
        vector is ``[*launch.prefix, *spec.argv]``.

        Raises:
            InvalidInput: the runtime does not support the image or an option.
        """
        ...

    def list_variables(self) -> Mapping[str, str]:
        """Return environment variables that the runtime sets for the program in addition to the
        job's own, such as VIRTUAL_ENV for ``bare``.
        """
        ...

    def list_path_folders(self) -> tuple[str, ...]:
        """Return the folders that are placed before the node's own PATH; for ``bare`` the ``bin``
        folder of the session environment.
        """
        ...
