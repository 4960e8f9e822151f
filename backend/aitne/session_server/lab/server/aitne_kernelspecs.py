"""Loading of the platform's notebook extension, which has the magics for ranks, in Python kernels.

The server starts each kernel of IPython, whichever environment its kernelspec names, with one more
argument: the extension ``aitne_kernel``, a module in the folder ``kernel`` beside this one. The
user's configuration of IPython stays in effect.

Runs in the session's environment: it may import only the standard library and Jupyter, and no other
module of this package.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

FOLDER = "AITNE_NOTEBOOK"
"""Environment variable that names the folder with the platform's packages to the kernel."""
KERNEL = Path(__file__).parents[1] / "kernel"
"""Folder of the module ``aitne_kernel`` alone."""
_EXTENSION = "--InteractiveShellApp.extra_extensions=aitne_kernel"
_LAUNCHERS = frozenset({"ipykernel", "ipykernel_launcher"})
_notebook: list[str] = []


def set_notebook_folder(notebook: str) -> None:
    """Set the folder with the platform's packages; called before the server starts."""
    _notebook[:] = [notebook]


def add_extension(spec: Any, notebook: str) -> Any:
    """Add the extension to a kernelspec and return it; one that does not start IPython's kernel is
    returned unchanged.
    """
    if spec.language.lower() != "python" or not _LAUNCHERS & set(spec.argv):
        return spec
    if _EXTENSION not in spec.argv:
        # Last in PYTHONPATH, so that the module hides none of the user's.
        path = spec.env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        own = str(KERNEL).replace("$", "$$")  # Jupyter replaces variables in the values
        path = f"{path}{os.pathsep}{own}" if path else own
        spec.argv = [*spec.argv, _EXTENSION]
        spec.env = {**spec.env, "PYTHONPATH": path, FOLDER: notebook.replace("$", "$$")}
    return spec


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    if not _notebook:
        return
    manager = server.kernel_spec_manager
    get = manager.get_kernel_spec

    def get_kernel_spec(kernel_name: str) -> Any:
        return add_extension(get(kernel_name), _notebook[0])

    manager.get_kernel_spec = get_kernel_spec
