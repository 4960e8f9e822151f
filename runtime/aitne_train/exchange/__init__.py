"""Strategies that exchange gradients between ranks, registered by name."""

from __future__ import annotations

from aitne_train.exchange.base import ExchangeStrategy
from aitne_train.plugin_registry import PluginRegistry

STRATEGIES: PluginRegistry[ExchangeStrategy] = PluginRegistry(
    "exchange strategy", "aitne_train.exchange", "aitne_train.exchanges"
)
