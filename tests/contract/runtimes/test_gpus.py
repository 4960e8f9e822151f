"""GPUs in containers, with a stand-in for the driver's library in a mount namespace of the test."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from aitne.core.ports.runtime import GPUS
from tests.contract.runtimes.bench import Bench

_A_LIBRARY, _DRIVER = b"libutil.so.1", b"libcuda.so.1"
"""Two names of the same length: the one becomes the other inside a copy."""


def _driver(folder: Path) -> list[str]:
    """Return a command prefix that shows an NVIDIA driver to the programs it starts only."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a driver's files")
    lib, programs, upper, work = (folder / name for name in ("lib", "bin", "dev", "work"))
    for made in (lib, programs, upper, work, upper / "pts", upper / "shm"):
        made.mkdir(parents=True)
    # What tells of a driver. Nothing is mounted below /proc: an ordinary user's own namespace could
    # then not have a /proc (mount_namespaces(7), "fully visible").
    (upper / "nvidiactl").touch(mode=0o666)
    (found,) = Path("/usr/lib").glob(f"*-linux-gnu/{_A_LIBRARY.decode()}")
    content = found.read_bytes()
    assert _A_LIBRARY in content
    (lib / _DRIVER.decode()).write_bytes(content.replace(_A_LIBRARY, _DRIVER))
    smi = programs / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho the fake driver\n")
    smi.chmod(0o755)
    apptainer = shutil.which("apptainer")
    assert apptainer is not None
    assert not apptainer.startswith("/usr/local/bin/")
    cache = folder / "ld.so.cache"
    cache.touch()
    script = f"""
        mount --make-rprivate /
        mount --bind {shlex.quote(str(lib))} /usr/local/lib
        mount --bind {shlex.quote(str(programs))} /usr/local/bin
        mount -t overlay -o {shlex.quote(f"lowerdir=/dev,upperdir={upper},workdir={work}")} dev /dev
        mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts
        mount -t tmpfs shm /dev/shm
        ldconfig -C {shlex.quote(str(cache))} 2>/dev/null
        mount --bind {shlex.quote(str(cache))} /etc/ld.so.cache
        exec "$@"
    """
    return ["unshare", "--mount", "sh", "-ec", script, "with-a-driver"]


SEEN = "ls /.singularity.d/libs 2>/dev/null; command -v nvidia-smi || true"


def test_a_job_with_gpus_gets_the_nodes_driver(apptainer: Bench) -> None:
    node = _driver(apptainer.home / "driver")
    run = apptainer.sh(SEEN, gpus=True, inside=node, around={"CUDA_VISIBLE_DEVICES": "0"})
    assert "libcuda.so.1" in run.out.split()


def test_a_job_without_gpus_does_not(apptainer: Bench) -> None:
    node = _driver(apptainer.home / "driver")
    assert "libcuda.so.1" not in apptainer.sh(SEEN, inside=node).out.split()


def test_a_node_without_a_driver_is_given_no_option(box: Bench) -> None:
    if Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists():
        pytest.skip("this machine has GPUs")
    assert box.sh("echo started", gpus=True).out == "started\n"


def test_each_vendor_has_its_option(apptainer: Bench) -> None:
    launch = apptainer.runtime.make_launch(apptainer.spec(["true"], gpus=True))
    assert launch.prefix.count(GPUS) == 1
    assert launch.gpu_options == {"nvidia": ("--nv",), "amd": ("--rocm",)}


def test_docker_without_nvidias_toolkit_says_that_it_has_no_gpus(docker_bench: Bench) -> None:
    node = _driver(docker_bench.home / "driver")
    run = docker_bench.start("true", gpus=True, inside=node)
    assert run.end() == 125
    assert "gpu" in run.err
