"""Wheels of this tree under other release numbers, and a platform that is installed from one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PARTS = (
    *("backend", "containers", "jobtemplates", "pyproject.toml", "hatch_build.py"),
    *("README.md", "LICENSE", "constraints.txt", "runtime"),
)
_MIGRATION = '''"""Added by a test."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("added_by_a_test", sa.Text(), nullable=True))
    {last}
'''

_RECORDS = (
    ("aitne/supervisor/supervisor_plan.py", "as_root: bool = False"),
    ("aitne/supervisor/supervisor_plan.py", "account: ProcessAccount | None = None"),
    ("aitne/adapters/schedulers/_local/job_records.py", "held: bool | None = None"),
    ("aitne/services/platform/backup_record.py", "bytes: int = Field(ge=0)"),
)
"""Modules with classes that are stored in files, and the last field of each class."""


def build_wheel(folder: Path) -> Path:
    """Build the wheels of this tree in ``folder``; return the platform's."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.so", ".mypy_cache")
    for name in _PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=ignored)
        elif source.exists():
            shutil.copy(source, tree / name)
    if (ROOT / "frontend" / "dist").is_dir():
        shutil.copytree(ROOT / "frontend" / "dist", tree / "frontend" / "dist")
    for source in (tree / "runtime", tree):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
            cwd=source,
            check=True,
            capture_output=True,
        )
    shutil.rmtree(tree)
    (wheel,) = folder.glob("aitne-*.whl")
    return wheel


def next_release(wheel: Path, version: str, *, migration: str = "pass", api: str = "") -> Path:
    """Return a copy of a wheel with another release number, in a folder of its own, with one more
    migration, and with more fields in the files that both releases read.

    Args:
        wheel: the wheel to copy.
        version: the release number.
        migration: last line of the migration.
        api: code that the program of the API runs at its start.
    """
    folder = wheel.parent / f"{version}-{len(list(wheel.parent.iterdir()))}"
    folder.mkdir()
    for runtime in wheel.parent.glob("aitne_train-*.whl"):
        shutil.copy(runtime, folder)
    name, present, tag = wheel.name.split("-", 2)
    info = f"{name}-{present}.dist-info/"
    with zipfile.ZipFile(wheel) as source:
        files = {each: source.read(each) for each in source.namelist()}
    files = {
        each.replace(info, f"{name}-{version}.dist-info/"): data for each, data in files.items()
    }
    info = f"{name}-{version}.dist-info/"
    _change(files, f"{info}METADATA", rf"^Version: {present}$", f"Version: {version}")
    _change(files, "aitne/__init__.py", '__version__ = "[^"]*"', f'__version__ = "{version}"')
    _change(files, "aitne/api/__main__.py", "^if __name__ ==", f"{api}\nif __name__ ==")
    for path, last in _RECORDS:
        _change(
            files,
            path,
            rf"^    {re.escape(last)}$",
            f"    {last}\n    added_by_a_test: str = 'new'",
        )
    migrations = "aitne/store/migrations/"
    head = re.findall(r'^HEAD = "([^"]*)"', files[f"{migrations}__init__.py"].decode(), re.M)[0]
    revision = f"{head}t"
    added = _MIGRATION.format(revision=revision, head=head, last=migration)
    files[f"{migrations}versions/{revision}_test.py"] = added.encode()
    _change(files, f"{migrations}__init__.py", '^HEAD = "[^"]*"', f'HEAD = "{revision}"')
    records = [f"{each},," for each in files]
    files[f"{info}RECORD"] = ("\n".join(records) + "\n").encode()
    made = folder / f"{name}-{version}-{tag}"
    with zipfile.ZipFile(made, "w") as target:
        for each, data in files.items():
            target.writestr(each, data)
    return made


def install_wheel(root: Path, wheel: Path) -> Path:
    """Create a virtual environment in ``root`` with the server of the wheel; return its program
    ``aitne``.
    """
    subprocess.run([sys.executable, "-m", "venv", str(root)], check=True)
    install = [str(root / "bin" / "python"), str(ROOT / "scripts" / "install.py")]
    constraint = ["--constraint", str(ROOT / "constraints.txt")]
    beside = ["--find-links", str(wheel.parent)]
    subprocess.run(
        [*install, *constraint, *beside, f"aitne[server] @ {wheel.as_uri()}"], check=True
    )
    return root / "bin" / "aitne"


def _change(files: dict[str, bytes], name: str, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, files[name].decode(), flags=re.M)
    assert count == 1, f"{pattern} is {count} times in {name}"
    files[name] = text.encode()
