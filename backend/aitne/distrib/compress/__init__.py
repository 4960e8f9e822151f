"""Compressors of gradients, registered by name."""

from __future__ import annotations

from aitne.core.platform.registry import Registry
from aitne.distrib.compress.base import BucketCompressor

COMPRESSORS: Registry[BucketCompressor] = Registry(
    "compressor", "aitne.distrib.compress", "aitne.compressors"
)
