"""Kernels of notebooks that run as jobs. Needs jupyter_client."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel

PYTHON = "python3"
"""Name of the kernel of a notebook that names none."""


class KernelMissing(ValueError):
    """Error: a notebook's kernel is not installed. The message is a sentence without full stop."""


class _Kernels(KernelSpecManager):
    """Finder of kernels that, as in sessions, loads the platform's extension in Python kernels."""

    package = ""
    """Folder with the platform's packages for notebooks."""

    def get_kernel_spec(self, kernel_name: str) -> Any:
        """Return the specification of a kernel."""
        server = f"{self.package}/lab/server"
        if server not in sys.path:
            sys.path.append(server)
        extended = import_module("aitne_kernelspecs").add_extension
        return extended(self._find_spec(kernel_name), self.package)

    def _find_spec(self, kernel_name: str) -> Any:
        return super().get_kernel_spec(kernel_name)


class _OwnPython(_Kernels):
    """Finder of kernels that runs Python kernels with the first Python on PATH."""

    replaced = False
    """Whether this Python also runs a kernel that is not installed."""

    def _find_spec(self, kernel_name: str) -> Any:
        found = None
        try:
            found = super()._find_spec(kernel_name)
        except NoSuchKernel:
            if kernel_name != PYTHON and not self.replaced:
                raise
        if found is not None and found.language.lower() != "python":
            return found
        python = shutil.which("python") or shutil.which(PYTHON) or "python"
        return KernelSpec(
            argv=[python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="Python",
            language="python",
        )


def get_kernel_name(metadata: Mapping[str, Any]) -> str:
    """Return the name of the kernel in a notebook's metadata; Python's if there is none."""
    return str(_get_section(metadata, "kernelspec").get("name") or PYTHON)


def is_in_python(metadata: Mapping[str, Any]) -> bool:
    """Return whether a notebook's metadata say that it is in Python."""
    languages = (
        _get_section(metadata, "kernelspec").get("language"),
        _get_section(metadata, "language_info").get("name"),
    )
    return next((str(name).lower() for name in languages if name), None) == "python"


def _get_section(metadata: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = metadata.get(name)
    return part if isinstance(part, Mapping) else {}


def make_kernel_manager(
    name: str, folder: str, *, own_python: bool, replaced: bool, package: str
) -> AsyncKernelManager:
    """Return the manager of a kernel that is not started yet.

    The kernel listens on sockets in ``folder``, which only the job's account may open: on a port,
    other users of the node could read its output.

    Args:
        name: name of the kernel.
        folder: folder of its sockets.
        own_python: whether a kernel for Python runs in the Python that is first on PATH.
        replaced: with ``own_python``, whether that Python runs the notebook also if there is no such
            kernel.
        package: folder with the platform's packages for notebooks.

    Raises ``KernelMissing`` if there is no such kernel.
    """
    specs = _OwnPython() if own_python else _Kernels()
    specs.package = package
    if isinstance(specs, _OwnPython):
        specs.replaced = replaced
    try:
        specs.get_kernel_spec(name)
    except NoSuchKernel:
        installed = ", ".join(sorted(specs.find_kernel_specs())) or "none"
        raise KernelMissing(
            f"the notebook's kernel {name!r} is not installed here; installed: {installed}. Name one of "
            "these with --kernel, or the environment that the notebook was written in with --venv "
            "(in a job file: notebook.kernel, environment.venv or environment.conda)"
        ) from None
    return AsyncKernelManager(
        kernel_name=name,
        kernel_spec_manager=specs,
        transport="ipc",
        ip=f"{folder}/k",
        connection_file=f"{folder}/kernel.json",
    )


def get_kernel_language(manager: AsyncKernelManager) -> str:
    """Return the language of a kernel in lower case, such as ``python``."""
    return str(manager.kernel_spec.language).lower()


async def describe_end(manager: AsyncKernelManager) -> tuple[int, str]:
    """Return how a kernel has ended: its exit code (128 + n for signal n, 1 if unknown) and a
    phrase for messages, such as ``was killed by SIGKILL``."""
    code = await manager.provisioner.poll() if manager.provisioner is not None else None
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return 128 - code, f"was killed by {name}"
    return (code or 1), "ended" if code is None else f"ended with exit code {code}"
