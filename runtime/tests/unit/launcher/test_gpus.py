"""GPUs that ``CUDA_VISIBLE_DEVICES`` names."""

from __future__ import annotations

import pytest

from aitne_train.launcher.visible_gpus import parse_visible_gpus


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("", []),
        ("0, 2", ["0", "2"]),
        ("GPU-1b,MIG-2c", ["GPU-1b", "MIG-2c"]),
        ("NoDevFiles", []),
        ("-1", []),
        ("1,-1,0", ["1"]),
    ],
)
def test_invalid_gpu_hides_those_after_it(text: str, devices: list[str]) -> None:
    assert parse_visible_gpus(text) == devices
