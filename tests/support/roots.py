"""A root file system of a few megabytes that a shell runs in, and archives of it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

PROGRAMS = ("/bin/sh", "/bin/cat", "/bin/true")
STATUS = "Package: dash\nStatus: install ok installed\nVersion: 0.5.12-2\n"
METADATA = "Metadata-Version: 2.4\nName: tiny\nVersion: 1.2.3\n\nNothing.\n"
LIBRARY = "opt/tiny/lib/python3.11/site-packages/tiny-1.2.3.dist-info"


def make_root(folder: Path) -> Path:
    """Create a root file system with this machine's shell, one Debian package and one of Python."""
    for name in ("bin", "etc", "proc", "sys", "dev", "tmp", "var/tmp", "var/lib/dpkg", LIBRARY):
        (folder / name).mkdir(parents=True)
    for program in PROGRAMS:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
        found = {word for word in listed.stdout.split() if word.startswith("/")}
        for path in (program, *found):
            target = folder / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\n")
    (folder / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (folder / "etc/resolv.conf").write_text("")
    (folder / "var/lib/dpkg/status").write_text(STATUS)
    (folder / LIBRARY / "METADATA").write_text(METADATA)
    return folder


def make_archive(root: Path, target: Path) -> Path:
    """Write an image with this root file system in the format of `docker save`."""
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        layer.add(root, arcname=".")
    content = buffer.getvalue()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(content)}"]},
        }
    ).encode()
    name = f"{_digest(config)}.json"
    manifest = [{"Config": name, "RepoTags": ["tiny:1"], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        for path, data in (
            (name, config),
            ("layer.tar", content),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, BytesIO(data))
    return target


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
