"""Compressors of gradients, registered by name."""

from __future__ import annotations

from aitne_train.compress.base import BucketCompressor
from aitne_train.plugin_registry import PluginRegistry

COMPRESSORS: PluginRegistry[BucketCompressor] = PluginRegistry(
    "compressor", "aitne_train.compress", "aitne_train.compressors"
)
