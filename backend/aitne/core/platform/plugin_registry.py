"""Loader of the platform's plug-ins, such as schedulers: see ``aitne_train.plugin_registry``."""

from __future__ import annotations

from typing import TypeVar

from aitne.core.errors import SetupError
from aitne_train.plugin_registry import PluginRegistry

P = TypeVar("P")


class Registry(PluginRegistry[P]):
    """Plug-ins of one kind of the platform. Its errors are ``SetupError``."""

    error = SetupError
