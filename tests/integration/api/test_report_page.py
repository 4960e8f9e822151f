"""The Python example of `docs/howto/usage-report.md` runs against the API."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import httpx

from tests.support import realtime
from tests.support.api_server import Server

pytestmark = realtime.BROWSER

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "usage-report.md"


def test_a_years_table_as_the_page_makes_it(tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    server = Server(tmp_path)
    server.prepare()
    process = server.start()
    try:
        server.wait(process)
        project = {"name": "vision", "title": "Computer vision"}
        made = httpx.post(
            f"{server.url}/api/v1/projects", json=project, headers=server.headers(), timeout=30
        )
        assert made.status_code == 201, made.text
        done = subprocess.run(
            [sys.executable, "-c", f"{source}\nprint(text, end='')"],
            env={"AITNE_URL": server.url, "AITNE_TOKEN": server.token, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        process.kill()
        process.communicate()
    assert done.returncode == 0, done.stderr
    (head, *_) = csv.reader(done.stdout.splitlines())
    named = re.search(r"The columns are `([^`]*)`", PAGE.read_text())
    assert named is not None
    assert head == named[1].split(", ")
