"""Text of sizes in messages of the agent, which imports nothing of the platform."""

from __future__ import annotations


def describe_bytes(amount_bytes: int) -> str:
    """Return a number of bytes as text like ``aitne.core.byte_size_format.describe_bytes``, which the agent
    cannot import."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    exponent, tenths = 0, amount_bytes * 10
    while tenths >= 10_240 and exponent < len(units) - 1:
        exponent += 1
        scale = 1024**exponent
        tenths = (amount_bytes * 10 + scale // 2) // scale
        if tenths >= 1_000:
            tenths = (amount_bytes + scale // 2) // scale * 10
    return f"{tenths / 10:g} {units[exponent]}"
