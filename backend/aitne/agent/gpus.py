"""Utilization and memory of the job's GPUs, read from NVML without its Python bindings, which may
not be installed."""

from __future__ import annotations

import ctypes
from typing import Any

from aitne_train.launcher.visible_gpus import parse_visible_gpus

_LIBRARY = "libnvidia-ml.so.1"


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


_NOT_AVAILABLE = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE as an amount of memory."""
_UNCORRECTED, _VOLATILE = ctypes.c_uint(1), ctypes.c_uint(0)


class Gpus:
    """Reader of the metrics of a job's GPUs.

    Args:
        visible: value of ``CUDA_VISIBLE_DEVICES``, with indices or UUIDs; None: the variable is not
            set. Without it, or without a driver, no GPUs are measured.
    """

    def __init__(self, visible: str | None) -> None:
        self._devices: list[tuple[int, ctypes.c_void_p]] = []
        self._energy_mj: dict[int, int] = {}
        names = parse_visible_gpus(visible or "")
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
                energy_mj = self._read_energy_mj(handle)
                if energy_mj is not None:
                    self._energy_mj[index.value] = energy_mj

    def measure(self) -> list[dict[str, Any]]:
        """Measure each GPU; GPUs with errors are omitted.

        A result contains ``index``, ``utilization`` (0 to 1) and ``memory_bytes`` (used memory). If
        the GPU supports them, it also contains ``power_w``, ``energy_j`` (since this reader was
        created) and ``ecc_errors`` (uncorrected errors since the driver was loaded).
        """
        samples = []
        for index, handle in self._devices:
            busy, memory = _Utilization(), _Memory()
            if self._nvml.nvmlDeviceGetUtilizationRates(
                handle, ctypes.byref(busy)
            ) or self._nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
                continue
            if memory.used == _NOT_AVAILABLE:
                continue
            sample: dict[str, Any] = {
                "index": index,
                "utilization": busy.gpu / 100,
                "memory_bytes": int(memory.used),
            }
            power_mw = self._read_nvml_number("nvmlDeviceGetPowerUsage", ctypes.c_uint(), handle)
            if power_mw is not None:
                sample["power_w"] = power_mw / 1_000
            energy_mj = self._read_energy_mj(handle)
            if energy_mj is not None and index in self._energy_mj:
                # The counter begins anew when the driver is loaded again.
                sample["energy_j"] = max(0, energy_mj - self._energy_mj[index]) / 1_000
            errors = self._read_nvml_number(
                "nvmlDeviceGetTotalEccErrors",
                ctypes.c_ulonglong(),
                handle,
                _UNCORRECTED,
                _VOLATILE,
            )
            if errors is not None:
                sample["ecc_errors"] = errors
            samples.append(sample)
        return samples

    def _read_energy_mj(self, handle: ctypes.c_void_p) -> int | None:
        return self._read_nvml_number(
            "nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong(), handle
        )

    def _read_nvml_number(self, function: str, value: Any, *arguments: Any) -> int | None:
        """Call a function of NVML that writes a number to its last argument, and return the number;
        None if the driver or the GPU does not support the function or has no value.

        Args:
            function: name of the function.
            value: ctypes object for the result.
            arguments: the other arguments.
        """
        call = getattr(self._nvml, function, None)
        if call is None or call(*arguments, ctypes.byref(value)) != 0:
            return None
        # NVML_VALUE_NOT_AVAILABLE: all bits are set.
        return None if value.value == type(value)(-1).value else int(value.value)
