"""The wheel of the training runtime, as images install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from aitne.adapters.images import wheels


def test_the_training_runtime_can_be_installed_from_its_wheel(tmp_path: Path) -> None:
    made = wheels.write_wheel("aitne-train", tmp_path)
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", target]
    subprocess.run([*pip, "--quiet", "--disable-pip-version-check", made], check=True)
    names = zipfile.ZipFile(made).namelist()
    assert {"aitne_train/transport/base.py", "aitne_train/_native/reduce.c"} <= set(names)
    assert any(name.endswith(".so") for name in names) == (shutil.which("cc") is not None)
    assert not any("__pycache__" in name or name.startswith("aitne/") for name in names)
    runner = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            "import aitne_train.launcher.main; print(aitne_train.launcher.main.__file__)",
        ],
        env={"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert runner.stdout.startswith(str(target))
    assert {"aitne-run", "aitne-train"} <= {path.name for path in (target / "bin").iterdir()}
