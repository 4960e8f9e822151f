"""GPUs that a process may use. Standard library only."""

from __future__ import annotations


def parse_visible_gpus(text: str) -> list[str]:
    """Return the indices or UUIDs in a value of ``CUDA_VISIBLE_DEVICES``.

    As in CUDA, an invalid entry such as ``-1`` hides itself and those after it. Slurm writes
    ``NoDevFiles`` for a job without GPUs.
    """
    devices = []
    for device in map(str.strip, text.split(",")):
        if device.startswith("-") or device.lower() in ("nodevfiles", "none", "void"):
            break
        if device:
            devices.append(device)
    return devices
