"""The command of the broker in an installation of the client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import aitne

PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from aitne.cli.broker_command import run_broker
run_broker()
"""


def test_broker_of_a_client_names_what_to_install() -> None:
    packages = str(Path(aitne.__file__).parents[1])
    # Without site-packages, as little is installed as with the client.
    argv = [sys.executable, "-I", "-S", "-c", PROGRAM, packages]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "aitne[server]"' in done.stderr
    assert "Traceback" not in done.stderr
