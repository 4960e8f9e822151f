"""Horovod's package in programs that ``aitne-run --horovod`` starts: ``horovod.torch`` and its
submodules are ``aitne_train`` and its submodules, the same module objects.

``AITNE_HOROVOD`` is a folder with the package ``aitne_train``, for a Python that does not have it.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

__version__ = "0.28.1"
_VARIABLE = "AITNE_HOROVOD"
_RUNTIME = "aitne_train"
_NAMES = {
    "horovod.torch": _RUNTIME,
    "horovod.runner": f"{_RUNTIME}.run_function",
    "horovod.common.exceptions": f"{_RUNTIME}.errors",
}
_OTHER_FRAMEWORKS = ("tensorflow", "keras", "mxnet", "spark", "ray")


class _AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finder and loader of Horovod's modules, which are the modules of the training runtime."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a module of Horovod; None for other modules.

        Raises ``ModuleNotFoundError`` for Horovod's other frameworks.
        """
        package, _, rest = fullname.partition(".")
        if package != __name__:
            return None
        if rest.split(".")[0] in _OTHER_FRAMEWORKS:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: in a run of aitne-run --horovod there is horovod.torch only",
                name=fullname,
            )
        if fullname in _NAMES:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        real = _real_name(fullname)
        if real is None or importlib.util.find_spec(real) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Import the module of the training runtime in place of ``module``."""
        name = module.__name__
        _find_runtime()
        sys.modules[name] = importlib.import_module(_real_name(name) or name)


def _real_name(fullname: str) -> str | None:
    """Return the name of the runtime's module that a module of Horovod is; None if it is none."""
    if fullname in _NAMES:
        return _NAMES[fullname]
    prefix = f"{__name__}.torch."
    return f"{_RUNTIME}.{fullname[len(prefix) :]}" if fullname.startswith(prefix) else None


def _find_runtime() -> None:
    """Make the training runtime importable from the folder in ``AITNE_HOROVOD`` if this Python does
    not have it.

    Nothing else in the folder becomes importable: it may be the environment of another Python.
    """
    if importlib.util.find_spec(_RUNTIME) is not None:
        return
    folder = os.path.join(os.environ.get(_VARIABLE, ""), _RUNTIME)
    spec = importlib.util.spec_from_file_location(
        _RUNTIME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None or not os.path.isdir(os.path.join(folder, "transport")):
        raise ModuleNotFoundError(
            f"No module named {_RUNTIME!r}: {sys.executable} needs it for `import horovod.torch` with aitne-run "
            "--horovod. Install aitne-train for this Python",
            name=_RUNTIME,
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[_RUNTIME] = module
    spec.loader.exec_module(module)


def _report_installed() -> None:
    """Say on rank 0 that a Horovod that is installed for this Python is not used."""
    if os.environ.get("RANK", "0") != "0" or multiprocessing.parent_process() is not None:
        return
    own = os.path.dirname(os.path.dirname(__file__))
    spec = importlib.machinery.PathFinder.find_spec(
        __name__, [folder for folder in sys.path if os.path.abspath(folder) != own]
    )
    if spec is None or spec.origin is None:  # a folder of this name is no package
        return
    try:
        version = f"Horovod {importlib.metadata.version(__name__)}"
    except importlib.metadata.PackageNotFoundError:
        version = "the package horovod"
    where = os.path.dirname(spec.origin)
    sys.stderr.write(
        f"aitne: `import horovod.torch` is aitne_train here, by aitne-run --horovod: {version} in {where} is not "
        "used. Omit --horovod to use it\n"
    )
    sys.stderr.flush()


def __getattr__(name: str) -> Any:
    """Return ``horovod.run``, which is imported only if it is used."""
    if name == "run":
        return importlib.import_module(f"{__name__}.runner").run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


sys.meta_path.insert(0, _AliasFinder())
_report_installed()
