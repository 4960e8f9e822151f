"""Kernels as a session's server starts them: with the notebook extension, whatever it does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import aitne
from aitne.supervisor import software_environments
from tests.support import realtime
from tests.support.platform import environments_or_skip

pytestmark = realtime.PROCESSES

SERVER = Path(aitne.__file__).parent / "session_server" / "lab" / "server"
PROGRAM = """
import json, sys
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

server_extensions, notebook, *cells = sys.argv[1:]
sys.path.append(server_extensions)
import aitne_kernelspecs

class Server:
    kernel_spec_manager = KernelSpecManager()

aitne_kernelspecs.set_notebook_folder(notebook)
aitne_kernelspecs._load_jupyter_server_extension(Server)
manager = KernelManager(kernel_name="python3", kernel_spec_manager=Server.kernel_spec_manager)
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)
printed = []
for cell in cells:
    text = []
    def note(message):
        if message["msg_type"] == "stream":
            text.append(message["content"]["text"])
    client.execute_interactive(cell, output_hook=note, timeout=60)
    printed.append("".join(text).strip())
client.stop_channels()
manager.shutdown_kernel()
print(json.dumps(printed))
"""
EXTENSION = """
import builtins

def load_ipython_extension(shell):
    builtins.loaded = __file__
"""


def _run(home: Path, notebook: Path, *cells: str) -> list[str]:
    """Execute the cells in a new kernel and return what each printed."""
    environments_or_skip()
    python = software_environments.session_env_dir() / "bin/python"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(home / "mine")}
    done = subprocess.run(
        [str(python), "-c", PROGRAM, str(SERVER), str(notebook), *cells],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: list[str] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with an own start-up file and configuration of IPython, and own modules."""
    startup = tmp_path / ".ipython" / "profile_default"
    (startup / "startup").mkdir(parents=True)
    (startup / "startup" / "own.py").write_text("own = 1\n")
    (startup / "ipython_kernel_config.py").write_text(
        'get_config().InteractiveShellApp.extensions = ["mine"]\n'
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.py").write_text("def load_ipython_extension(shell): pass\n")
    return tmp_path


def test_kernel_loads_notebook_extension_beside_own_configuration(home: Path) -> None:
    package = home / "$notebook" / "aitne" / "notebook"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text(EXTENSION)
    loaded, path, mine = _run(
        home,
        package.parents[1],
        "print(loaded)",
        "import os, sys; print(os.environ['PYTHONPATH'], 'AITNE_NOTEBOOK' in os.environ, sys.path[-1])",
        "print(own, 'mine' in get_ipython().extension_manager.loaded)",
    )
    assert loaded == str(package / "__init__.py")
    assert path.split() == [str(home / "mine"), "False", str(package.parents[1])]
    assert mine == "1 True"


def test_kernel_without_working_extension_starts_and_magics_say_why(home: Path) -> None:
    package = home / "notebook" / "aitne" / "notebook"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("raise OSError('the disk is full')")
    answer, line, cell = _run(
        home, package.parents[1], "print(6 * 7)", "%ranks", "%%distributed -n 2\nprint(1)"
    )
    assert answer == "42"
    assert "Ranks are not available in this kernel. OSError: the disk is full" in line
    assert "the disk is full" in cell
