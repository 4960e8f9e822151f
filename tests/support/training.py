"""An environment with torch that every account of this machine can read."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.requirements import lacking, need_package


@contextmanager
def shared_environment(*, runtime: bool = True) -> Iterator[Path]:
    """Create a folder with a `venv` during the block, which has torch and, with ``runtime``,
    ``aitne_train``.

    The test is skipped where the system's Python cannot use this environment's torch.
    """
    need_package("torch")
    system = Path("/usr/bin/python3")
    folder = Path(tempfile.mkdtemp(prefix="aitne-train-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        subprocess.run([system, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        (site,) = (folder / "venv" / "lib").glob("python3.*/site-packages")
        root = Path(__file__).parents[2]
        own = [path for path in sys.path if path.endswith("site-packages")]
        paths = [*own, str(root / "backend"), str(root / "runtime")] if runtime else own
        (site / "own.pth").write_text("\n".join(paths) + "\n")
        modules = "torch, aitne_train" if runtime else "torch"
        imports = [folder / "venv/bin/python", "-c", f"import {modules}"]
        done = subprocess.run(imports, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().rpartition("\n")[2]
            lacking("torch", f"{system} cannot use this environment's torch: {said}")
        yield folder
    finally:
        shutil.rmtree(folder)
