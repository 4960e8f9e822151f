"""Wheels of this tree under other release numbers, and a platform that is installed from one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PARTS = (
    *("backend", "containers", "jobtemplates", "pyproject.toml", "hatch_build.py"),
    *("README.md", "LICENSE", "constraints.txt"),
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


def build_wheel(
    folder: Path, version: str, *, migration: str | None = None, init: str = ""
) -> Path:
    """Build a wheel of this tree with another version.

    Args:
        folder: a new folder for the copy of the tree and the wheel.
        version: release number of the wheel.
        migration: last line of an additional migration, such as ``pass``; None: no such migration.
        init: code that is added to the program of the API.
    """
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
    package = tree / "backend" / "aitne"
    _replace(package / "__init__.py", r'__version__ = "[^"]*"', f'__version__ = "{version}"')
    with (package / "api" / "__main__.py").open("r+") as main:
        text = main.read()
        main.seek(0)
        main.write(text.replace("\nif __name__ ==", f"\n{init}\n\nif __name__ ==", 1))
    if migration is not None:
        migrations = package / "adapters" / "store" / "migrations"
        head = re.findall(r'^HEAD = "([^"]*)"', (migrations / "__init__.py").read_text(), re.M)[0]
        revision = f"{head}t"
        text = _MIGRATION.format(revision=revision, head=head, last=migration)
        (migrations / "versions" / f"{revision}_test.py").write_text(text)
        _replace(migrations / "__init__.py", r'^HEAD = "[^"]*"', f'HEAD = "{revision}"')
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=tree,
        check=True,
        capture_output=True,
    )
    shutil.rmtree(tree)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_wheel(root: Path, wheel: Path) -> Path:
    """Create a virtual environment in ``root`` with the server of the wheel; return its program
    ``aitne``.
    """
    subprocess.run([sys.executable, "-m", "venv", str(root)], check=True)
    install = [str(root / "bin" / "python"), str(ROOT / "scripts" / "install.py")]
    constraint = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*install, *constraint, f"aitne[server] @ {wheel.as_uri()}"], check=True)
    return root / "bin" / "aitne"


def _replace(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, path.read_text(), flags=re.M)
    assert count == 1, f"{pattern} is {count} times in {path}"
    path.write_text(text)
