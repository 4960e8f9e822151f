"""Utilization and memory of the job's GPUs, read from NVML without its Python bindings, which may
not be installed."""

from __future__ import annotations

import ctypes
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Gpus:
    """Reader of the metrics of the GPUs in ``CUDA_VISIBLE_DEVICES``. There are none if the variable
    is unset or ambiguous, or if the driver is missing."""

    def __init__(self, visible: str | None) -> None:
        self._devices: list[tuple[int, ctypes.c_void_p]] = []
        names = [name.strip() for name in (visible or "").split(",") if name.strip()]
        if not names:
            return
        try:
            self._nvml = ctypes.CDLL(_LIBRARY)
            if self._nvml.nvmlInit_v2() != 0:
                return
        except (OSError, AttributeError):
            return
        for name in names:
            handle = ctypes.c_void_p()
            if name.isdecimal():
                failed = self._nvml.nvmlDeviceGetHandleByIndex_v2(
                    ctypes.c_uint(int(name)), ctypes.byref(handle)
                )
            else:
                failed = self._nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
            index = ctypes.c_uint()
            if not failed and not self._nvml.nvmlDeviceGetIndex(handle, ctypes.byref(index)):
                self._devices.append((index.value, handle))

    def measure(self) -> list[dict[str, Any]]:
        """Return index, utilization (0 to 1) and used memory in bytes of each GPU; GPUs with errors
        are omitted."""
        samples = []
        for index, handle in self._devices:
            busy, memory = _Utilization(), _Memory()
            if self._nvml.nvmlDeviceGetUtilizationRates(
                handle, ctypes.byref(busy)
            ) or self._nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
                continue
            samples.append(
                {
                    "index": index,
                    "utilization": busy.gpu / 100,
                    "memory_bytes": int(memory.used),
                }
            )
        return samples
