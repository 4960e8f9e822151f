"""An installed wheel works without a checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from aitne.services.jobs.template_catalog import TemplateCatalog, builtin_folder
catalog = TemplateCatalog([builtin_folder()])
names = [template.name for template in catalog.templates()]
print(json.dumps([str(builtin_folder()), names, len(catalog.problems())]))
"""

COMMAND_LINE = """
import sys
sys.path[:0] = sys.argv.pop(1).split(":")
from aitne.cli.main import run
run()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel of this checkout is installed into."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_development_clusters_need_a_checkout(site: Path, tmp_path: Path) -> None:
    assert (site / "aitne" / "cli").is_dir()
    assert [path.name for path in site.iterdir() if path.suffix != ".dist-info"] == ["aitne"]
    # Without site's .pth files, one of which has the folders of this checkout.
    python = [sys.executable, "-I", "-S", "-c", COMMAND_LINE]
    paths = f"{site}:{sysconfig.get_path('purelib')}:{ROOT / 'runtime'}"
    for verb in ("up", "down", "status"):
        command = [*python, paths, "dev", "cluster", verb]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode != 0
        assert "a clone of its repository" in ran.stderr


def test_templates_are_package_data(site: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, str(site)],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    folder, names, problems = json.loads(ran.stdout)
    assert folder == str(site / "aitne" / "_data" / "jobtemplates")
    assert names == sorted(path.stem for path in (ROOT / "jobtemplates").glob("*.yaml"))
    assert problems == 0
