"""The container runtime: how a user's program is put into its environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pydantic import Field

from aitne.core.jobs.states import TerminationReason
from aitne.core.models.base import Frozen
from aitne.core.models.image import ImageUse

GPUS = "{gpus}"
"""Stands alone in ``RuntimeLaunch.prefix`` where the agent puts the options for the GPUs the node has."""
TMP = "{tmp}"
"""Stands in ``RuntimeLaunch.prefix`` and ``RuntimeLaunch.env`` for the folder on node-local disk that the agent
makes for this run (mode 0700) and removes after it. It holds the folders ``tmp`` and
``var_tmp``."""


PROGRAM = "{program}"
"""Stands in ``RuntimeLaunch.helpers`` for the path of the node's own program of that name."""


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
    """Whether the image's own files can be changed; the changes are gone afterwards."""
    network: bool = True
    """Whether the program uses the node's network; False: only the loopback interface."""
    limits: RuntimeLimits = RuntimeLimits()
    labels: dict[str, str] = Field(default_factory=dict)
    """Names of the job, for runtimes that keep a record of what they run."""


class OwnEnding(Frozen):
    """Exit of the runtime's launching program that has another cause than the user's program, such
    as a missing image, and how to recognize it.
    """

    exit_code: int
    words: str
    """Beginning of the log's last line in that case; the sentence follows its first colon."""
    reason: TerminationReason


class RuntimeLaunch(Frozen):
    """Instructions for the agent on how to start programs in a container: the command prefix and
    the environment. The agent fills in what only the node knows, such as its GPUs.
    """

    prefix: tuple[str, ...] = ()
    """Put before a program's own argument vector."""
    gpu_options: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Replacement of ``GPUS``, by the vendor of the node's GPUs (``nvidia``, ``amd``); without
    GPUs, or of a vendor that is not here, nothing."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of the launching program itself."""
    env_prefix: str | None = None
    """None: the program's variables are set as they are, on top of the agent's own. Otherwise the
    launching program gets nothing but ``env``, a fixed PATH, LANG and HOME, and the program's
    variables with this before each name."""
    helpers: dict[str, str] = Field(default_factory=dict)
    """Scripts of /bin/sh, by the name of a program that the launching program calls: where the node
    has one of that name, the agent puts the script before it on the launching program's PATH."""
    program: str | None = None
    """Program that must be installed on the node; the agent reports it if it is missing."""
    forwards_signals: bool = False
    """Whether the launching program passes signals on. Then the agent signals it alone, not its
    whole process group: programs in a container are in that group, and would get each signal
    twice."""
    own_endings: tuple[OwnEnding, ...] = ()
    """The first match counts. A program that ends with the same exit code and words matches too."""


class Runtime(Protocol):
    """Port to a container runtime. Each module in ``adapters/runtimes`` has one implementation,
    which is created from ``(settings, session_env)``.

    It only builds argument vectors, without side effects; the agent starts the programs.
    """

    name: str
    serves_images: bool
    """Whether programs run in images; False: they run directly on the node."""

    def refusal(self, *, remote: bool) -> str | None:
        """Return why this platform cannot use the runtime, as a sentence, or None if it can.

        ``remote`` is True if containers run on other machines than the platform, or as other accounts.
        """
        ...

    def launch(self, spec: ContainerSpec) -> RuntimeLaunch:
        """Return the instructions for starting the program of ``spec``; the complete argument
        vector is ``[*launch.prefix, *spec.argv]``.

        Raises:
            InvalidInput: the runtime does not support the image or an option.
        """
        ...

    def environment(self) -> Mapping[str, str]:
        """Return the variables that the runtime itself adds to the program's (``bare``:
        VIRTUAL_ENV)."""
        ...

    def path(self) -> tuple[str, ...]:
        """Return the folders that come before the node's own PATH (``bare``: the session
        environment's)."""
        ...
