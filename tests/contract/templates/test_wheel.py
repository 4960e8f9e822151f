"""An installed wheel finds its templates without a checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from aitne.services.templates import TemplateCatalog, builtin_folder
catalog = TemplateCatalog([builtin_folder()])
names = [template.name for template in catalog.templates()]
print(json.dumps([str(builtin_folder()), names, len(catalog.problems())]))
"""


def test_templates_are_package_data(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
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
