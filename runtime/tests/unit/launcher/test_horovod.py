"""Scripts for Horovod in runs of ``aitne-run --horovod``."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import aitne_train.launcher
from aitne_train.launcher import horovod_import
from aitne_train.launcher.main import main
from aitne_train.transport.base import TransportError
from aitne_train.transport_choice import choose_transport

BACKEND = str(Path(aitne_train.launcher.__file__).parents[2])
PATH = str(Path(aitne_train.launcher.__file__).parent / "horovod_path")
IMPORTS = """
import horovod, pickle, sys
import horovod.torch as hvd
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
from horovod.torch.mpi_ops import allreduce_async_
from horovod.torch import elastic, optimizer
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.runner import run
import aitne_train, aitne_train.elastic.sampler
assert hvd is horovod.torch is aitne_train
assert aitne_train.__spec__.name == aitne_train.__name__ == "aitne_train"
assert ElasticSampler is aitne_train.elastic.sampler.ElasticSampler is elastic.ElasticSampler
assert issubclass(HorovodInternalError, RuntimeError) and HorovodInternalError is hvd.HorovodInternalError
assert horovod.run is run is hvd.run
assert horovod.__version__ == "0.28.1"
hvd.init()
assert (hvd.rank(), hvd.size()) == (0, 1)
print("from", aitne_train.__file__)
"""


def python(
    code: str, *options: str, path: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a process with the variables of a rank."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path, **environ, horovod_import.VARIABLE: ""}
    env |= horovod_import.build_variables(env) | environ
    argv = [sys.executable, *options, "-c", code]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def _make_notice() -> str:
    """Return what is printed if this environment has the real Horovod too; empty if it has not."""
    try:
        horovod = importlib.metadata.distribution("horovod")
    except importlib.metadata.PackageNotFoundError:
        return ""
    return (
        f"aitne: `import horovod.torch` is aitne_train here, by aitne-run --horovod: Horovod {horovod.version} "
        f"in {horovod.locate_file('horovod')} is not used. Omit --horovod to use it\n"
    )


def test_modules_of_horovod_are_those_of_the_runtime() -> None:
    done = python(IMPORTS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"from {BACKEND}/aitne_train/__init__.py\n"
    assert done.stderr == _make_notice()


def test_python_without_aitne_uses_the_launchers() -> None:
    """Without site, editable installations are not found."""
    packages = sysconfig.get_path("purelib")
    done = python(IMPORTS, "-S", path=packages)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"from {BACKEND}/aitne_train/__init__.py\n"
    done = python("import horovod.torch", "-S", path=packages, AITNE_HOROVOD="/nowhere")
    assert "No module named 'aitne_train': " in done.stderr
    assert "Install aitne-train for this Python" in done.stderr


def test_real_horovod_that_is_installed_is_named_on_rank_0(tmp_path: Path) -> None:
    (tmp_path / "horovod" / "torch").mkdir(parents=True)
    for package in ("horovod", "horovod/torch"):
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('the real one')")
    metadata = tmp_path / "horovod-0.27.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.27.0\n")
    shown = "import horovod; print(horovod.__version__)"
    done = python(shown, path=str(tmp_path), RANK="0")
    assert done.stdout == "0.28.1\n", done.stderr
    assert done.stderr == (
        "aitne: `import horovod.torch` is aitne_train here, by aitne-run --horovod: Horovod 0.27.0 in "
        f"{tmp_path}/horovod is not used. Omit --horovod to use it\n"
    )
    assert python(shown, path=str(tmp_path), RANK="1").stderr == ""


def test_other_frameworks_of_horovod_are_named_as_missing() -> None:
    done = python(
        "import importlib.util\n"
        "try: importlib.util.find_spec('horovod.keras')\n"
        "except ModuleNotFoundError: print('no keras')\n"
        "import horovod.tensorflow"
    )
    assert done.stdout == "no keras\n"
    assert done.stderr.endswith(
        "ModuleNotFoundError: No module named 'horovod.tensorflow': in a run of aitne-run --horovod there is "
        "horovod.torch only\n"
    )


def test_import_path_of_the_user_is_kept_and_ours_is_added_once() -> None:
    assert horovod_import.build_variables({"PYTHONPATH": "/mine"}) == {}
    first = horovod_import.build_variables({"PYTHONPATH": "/mine", horovod_import.VARIABLE: ""})
    assert first == {"PYTHONPATH": f"{PATH}:/mine", horovod_import.VARIABLE: BACKEND}
    # As where the platform's launcher starts a program that calls aitne-run --horovod.
    assert (
        horovod_import.build_variables(
            {**first, "PYTHONPATH": f"/other/horovod_path:{first['PYTHONPATH']}"}
        )
        == first
    )


def test_transport_of_the_real_horovod_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert main(["--horovod", "--transport", "horovod", "-np", "1", "true"]) == 1
    assert "the transport horovod is Horovod itself: omit --horovod" in capsys.readouterr().err
    monkeypatch.setattr(os, "environ", {**os.environ, "AITNE_TRANSPORT": "horovod"})
    assert main(["--horovod", "-np", "1", "true"]) == 1
    # A program that chooses it itself.
    monkeypatch.setattr(os, "environ", {**os.environ, horovod_import.VARIABLE: BACKEND})
    with pytest.raises(TransportError, match="omit --horovod"):
        choose_transport([0, 0], "cpu", "horovod")
