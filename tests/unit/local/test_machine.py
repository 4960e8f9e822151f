"""Tests of the resources of this machine and of its pretended nodes."""

from __future__ import annotations

import os
import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from aitne.adapters.schedulers._local.environment import (
    base_environment,
    remove_unusable_characters,
)
from aitne.adapters.schedulers._local.machine_resources import gpu_type, list_node_capacities
from aitne.core.errors import SetupError
from aitne.core.settings import LocalSettings


def test_node_describes_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "GPU_Box.example.org")
    (node,) = list_node_capacities(LocalSettings(gpus="none"))
    assert node.name == "gpu-box"
    assert node.cpus == len(os.sched_getaffinity(0))
    assert node.memory_bytes > 1 << 28
    assert node.gpus == ()


def test_declared_gpus_are_numbered_through() -> None:
    first, second = list_node_capacities(
        LocalSettings(nodes=2, cpus=4, memory=1 << 30, gpus="a100:2,v100:1")
    )
    assert (first.name, second.name) == ("node01", "node02")
    assert [(gpu.index, gpu.type) for gpu in first.gpus] == [(0, "a100"), (1, "a100"), (2, "v100")]
    assert [gpu.index for gpu in second.gpus] == [3, 4, 5]
    assert [gpu.type for gpu in list_node_capacities(LocalSettings(gpus="2"))[0].gpus] == [
        None,
        None,
    ]


@pytest.mark.parametrize("text", ["a100:x", "a b", "gpu:a100:2:3"])
def test_a_wrong_declaration_says_what_to_write(text: str) -> None:
    with pytest.raises(SetupError, match="Write auto, none, a number"):
        list_node_capacities(LocalSettings(gpus=text))


@pytest.mark.parametrize(
    ("product", "kind"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H200", "h200"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA RTX A6000", "rtxa6000"),
        ("???", None),
    ],
)
def test_the_type_is_what_people_call_it(product: str, kind: str | None) -> None:
    assert gpu_type(product) == kind


class _NVMLError(Exception):
    pass


def _nvml(names: list[Any], *, broken: bool = False) -> SimpleNamespace:
    def init() -> None:
        if broken:
            raise _NVMLError

    return SimpleNamespace(
        NVMLError=_NVMLError,
        nvmlInit=init,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(names),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda index: names[index],
        nvmlSystemGetCudaDriverVersion=lambda: 12_040,
    )


def test_nvml_tells_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _nvml(["NVIDIA H200", b"Tesla T4"]))
    first, second = list_node_capacities(LocalSettings(nodes=2))
    assert [gpu.type for gpu in first.gpus] == ["h200", "t4"]
    assert first.features == ("cuda12.4",)
    assert (second.gpus, second.features) == ((), ())


def test_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _nvml([], broken=True))
    assert list_node_capacities(LocalSettings())[0].gpus == ()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert list_node_capacities(LocalSettings())[0].gpus == ()


def test_base_environment_contains_no_platform_variables() -> None:
    given = {
        "AITNE_DATA_DIR": "/data",
        "AITNE_TOKEN": "secret",
        "CONFIGPROXY_AUTH_TOKEN": "secret",
        "PYTHONPATH": "/x",
        "VIRTUAL_ENV": "/x",
        "LC_ALL": "C.UTF-8",
        "PATH": "/bin",
        "HOME": "/somewhere",
    }
    found = base_environment(given)
    assert found["HOME"] == "/somewhere"
    assert found["PATH"] == "/bin"
    assert found["LC_ALL"] == "C.UTF-8"
    assert set(found) <= {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LC_ALL"}
    assert base_environment({})["HOME"].startswith("/")


def test_job_of_other_account_inherits_language_alone() -> None:
    given = {
        "HOME": "/root",
        "USER": "root",
        "PATH": "/root/bin",
        "LD_LIBRARY_PATH": "/root/lib",
        "XDG_RUNTIME_DIR": "/run/user/0",
        "LANG": "de_DE.UTF-8",
    }
    found = base_environment(given, "daemon")
    assert (found["USER"], found["LOGNAME"], found["LANG"]) == ("daemon", "daemon", "de_DE.UTF-8")
    assert not any("root" in value for value in found.values())
    assert set(found) == {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG"}


def test_invalid_characters_are_removed_from_environment_text() -> None:
    assert remove_unusable_characters("a\0b\ud800c🪤") == "ab?c🪤"
