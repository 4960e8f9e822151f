"""A real Prometheus with data of the past."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import reserve_ports
from tests.support.requirements import lacking


def prometheus_or_skip() -> str:
    """Return the path of Prometheus; skip the test if Prometheus or promtool is missing."""
    program = shutil.which("prometheus")
    if program is None or shutil.which("promtool") is None:
        lacking("prometheus", "no prometheus: apt-get install prometheus")
    return program


@contextmanager
def prometheus_with(folder: Path, openmetrics: str) -> Iterator[str]:
    """Serve the samples of a text in OpenMetrics' format, which have timestamps; the address."""
    program = prometheus_or_skip()
    (folder / "samples.txt").write_text(openmetrics)
    blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "samples.txt", "data"]
    subprocess.run(blocks, cwd=folder, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    address = f"127.0.0.1:{reserve_ports()}"
    argv = [
        program,
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={address}",
        "--log.level=error",
    ]
    process = subprocess.Popen(argv, cwd=folder)
    try:
        _until_ready(f"http://{address}", process)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


def ask(url: str, path: str, **query: str) -> Any:
    """Query Prometheus's API; return the data of the answer."""
    answer = httpx.get(f"{url}/api/v1/{path}", params=query, trust_env=False, timeout=30)
    assert answer.is_success, f"{query}: {answer.text}"
    return answer.json()["data"]


def _until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "Prometheus ended"
        try:
            if httpx.get(f"{url}/-/ready", trust_env=False, timeout=5).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise TimeoutError("Prometheus did not start in time.")
