"""Puts the built portal into the wheel, where there is one, and builds the training runtime's kernel."""

from __future__ import annotations

import importlib.util
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NATIVE = Path("aitne") / "distrib" / "_native"


class InstallHook(BuildHookInterface):  # type: ignore[type-arg]
    """An sdist or an editable install needs no portal; a release wheel is built after `make up` or `npm run build`.

    The kernel is built for both kinds of install. Without a compiler there is none, and the pure version
    does its work.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add ``frontend/dist`` as ``aitne/_data/portal``, and the kernel to its sources."""
        portal = Path(self.root) / "frontend" / "dist"
        if version == "standard" and portal.is_dir():
            build_data["force_include"][str(portal)] = "aitne/_data/portal"
        self._build_kernel(version, build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel holds the kernel now."""
        if self._folder is not None:
            self._folder.cleanup()

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def _build_kernel(self, version: str, build_data: dict[str, Any]) -> None:
        native = Path(self.root) / "backend" / _NATIVE
        builder = _module(native / "build.py")
        folder = native
        if version == "standard":
            # The source tree may belong to another machine, or be read-only.
            self._folder = tempfile.TemporaryDirectory(prefix="aitne-kernel-")
            folder = Path(self._folder.name)
        try:
            made = builder.build(folder)
        except builder.BuildError as error:
            self.app.display_warning(
                f"The shared-memory kernel of aitne_train is not built: {error}\n"
                "Training works without it, more slowly between ranks of one node. To build it later: "
                "python -m aitne_train._native.build"
            )
            return
        if version == "standard":
            build_data["force_include"][str(made)] = str(_NATIVE / made.name)
            # It is loaded by ctypes: of no Python's version, but of this platform.
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("aitne_kernel_build", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
