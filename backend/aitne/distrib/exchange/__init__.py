"""Strategies that exchange gradients between ranks, registered by name."""

from __future__ import annotations

from aitne.core.platform.registry import Registry
from aitne.distrib.exchange.base import ExchangeStrategy

STRATEGIES: Registry[ExchangeStrategy] = Registry(
    "exchange strategy", "aitne.distrib.exchange", "aitne.exchanges"
)
