"""Kernels of notebooks that run as jobs. Needs jupyter_client."""

from __future__ import annotations

import shutil
import signal
import sys
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
        extended = import_module("aitne_kernels").with_extension
        return extended(self._found(kernel_name), self.package)

    def _found(self, kernel_name: str) -> Any:
        return super().get_kernel_spec(kernel_name)


class _OwnPython(_Kernels):
    """Finder of kernels that runs Python kernels with the first Python on PATH."""

    def _found(self, kernel_name: str) -> Any:
        found = None
        try:
            found = super()._found(kernel_name)
        except NoSuchKernel:
            if kernel_name != PYTHON:
                raise
        if found is not None and found.language.lower() != "python":
            return found
        python = shutil.which("python") or shutil.which(PYTHON) or "python"
        return KernelSpec(
            argv=[python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="Python",
            language="python",
        )


def kernel_manager(name: str, folder: str, *, own_python: bool, package: str) -> AsyncKernelManager:
    """Return the manager of a kernel that is not started yet.

    The kernel listens on sockets in ``folder``, which only the job's account may open: on a port,
    other users of the node could read its output. With ``own_python``, a kernel for Python runs in
    the Python that is first on PATH. ``package`` is the folder with the platform's packages for
    notebooks.

    Raises ``KernelMissing`` if there is no such kernel.
    """
    specs = _OwnPython() if own_python else _Kernels()
    specs.package = package
    try:
        specs.get_kernel_spec(name)
    except NoSuchKernel:
        installed = ", ".join(sorted(specs.find_kernel_specs())) or "none"
        raise KernelMissing(
            f"the notebook's kernel {name!r} is not installed here; installed: {installed}. Choose "
            "one in JupyterLab (Kernel > Change Kernel) and save the notebook"
        ) from None
    return AsyncKernelManager(
        kernel_name=name,
        kernel_spec_manager=specs,
        transport="ipc",
        ip=f"{folder}/k",
        connection_file=f"{folder}/kernel.json",
    )


def language(manager: AsyncKernelManager) -> str:
    """Return the language of a kernel in lower case, such as ``python``."""
    return str(manager.kernel_spec.language).lower()


async def end_of(manager: AsyncKernelManager) -> tuple[int, str]:
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
