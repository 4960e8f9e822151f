"""Loader of plug-ins: each module of a package is one plug-in, and other distributions may add
further ones.

A plug-in is the only public class of its module that has the attribute ``name``, which is equal to
the module's name (``slurm_cli.py`` contains the plug-in ``slurm_cli``), so that only this module
needs to be imported. Modules whose names begin with ``_`` are helpers, and ``base`` defines the
interface of the package's plug-ins. Installed distributions add plug-ins by entry points in the
registry's group, such as ``aitne_train.transports``; a module of the package takes precedence over one
of the same name.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Generic, TypeVar

P = TypeVar("P")


class PluginError(ValueError):
    """Error: a plug-in does not exist or cannot be used. The message states what to do."""


class PluginRegistry(Generic[P]):
    """Plug-ins of one kind. ``kind`` is the name of the kind in error messages, such as
    ``transport``.
    """

    error: type[Exception] = PluginError
    """Class of the errors that are raised."""

    def __init__(self, kind: str, package: str, group: str) -> None:
        self.kind = kind
        self.package = package
        self.group = group

    def names(self) -> list[str]:
        """Return the names of all plug-ins, sorted. Imports no plug-in."""
        return sorted({*self._list_module_names(), *self._entry_points()})

    def get(self, name: str) -> Callable[..., P]:
        """Return the plug-in class called ``name``.

        Raises:
            PluginError: there is none, or it cannot be imported; the message lists the existing
                names. A subclass may raise another ``error``.
        """
        if name in self._list_module_names():
            return self._load_plugin(name, lambda: self._plugin_of(self._import_module(name)))
        point = self._entry_points().get(name)
        if point is None:
            raise self.error(
                f"There is no {self.kind} {name!r}; there is: {', '.join(self.names()) or 'none'}."
            )
        return self._load_plugin(name, point.load)

    def all(self) -> dict[str, Callable[..., P]]:
        """Return all plug-in classes by name; imports all of them."""
        return {name: self.get(name) for name in self.names()}

    def _load_plugin(self, name: str, load: Callable[[], Any]) -> Callable[..., P]:
        try:
            candidate = load()
        except ImportError as error:
            raise self.error(
                f"The {self.kind} {name!r} cannot be loaded: {error}. Install its requirements."
            ) from error
        if getattr(candidate, "name", None) != name:
            raise self.error(
                f"The {self.kind} {name!r} has a class with the name "
                f"{getattr(candidate, 'name', None)!r}: the two names must be the same."
            )
        plugin: Callable[..., P] = candidate
        return plugin

    def _import_module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.package}.{name}")

    def _list_module_names(self) -> frozenset[str]:
        package = importlib.import_module(self.package)
        return frozenset(
            module.name
            for module in pkgutil.iter_modules(package.__path__)
            if not module.name.startswith("_") and module.name != "base"
        )

    def _entry_points(self) -> Mapping[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def _plugin_of(self, module: ModuleType) -> type:
        """Return the only public class that is defined in ``module`` and has the attribute ``name``.

        Raises:
            PluginError: there is none, or more than one.
        """
        classes = [
            value
            for name, value in vars(module).items()
            if inspect.isclass(value)
            and not name.startswith("_")
            and value.__module__ == module.__name__
            and isinstance(vars(value).get("name"), str)
        ]
        if len(classes) != 1:
            names = ", ".join(sorted(cls.__name__ for cls in classes)) or "none"
            raise self.error(
                f"{module.__name__} must define exactly one public class with a name; found: {names}."
            )
        return classes[0]
