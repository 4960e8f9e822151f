"""Python wheels that are installed in an image from this machine: the training runtime, and locally
built packages.

The name ``aitne-train`` stands for the training runtime of this installation, packed as a wheel
again. Any other name is a folder in the user's cache that contains one wheel; the folder's
name says for which versions it was built (see ``scripts/horovod_wheel.py``).
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import sysconfig
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.local_system.platform_folders import cache_dir
from aitne_train import package_file_collection

OWN = "aitne-train"
_DATE = (1980, 1, 1, 0, 0, 0)


def compute_wheel_digest(name: str) -> str:
    """Return a digest of the content of the wheel that ``write_wheel`` would write.

    ``name`` is ``aitne-train`` or the name of a folder with a wheel.

    Raises:
        SetupError: there is no such wheel.
    """
    if name != OWN:
        return _compute_digest(_find_cached_wheel(name).read_bytes())
    return _compute_digest(
        *(
            data
            for path, data in package_file_collection.collect_files_with_kernel().items()
            for data in (path.encode(), data)
        )
    )


def write_wheel(name: str, folder: Path) -> Path:
    """Write the wheel to ``folder`` and return its path.

    Raises:
        SetupError: there is no such wheel.
        OSError: the wheel cannot be written.
    """
    if name != OWN:
        return Path(shutil.copy(_find_cached_wheel(name), folder))
    return _pack_training_runtime(folder)


def _find_cached_wheel(name: str) -> Path:
    place = cache_dir() / "wheels" / name
    wheel_paths = sorted(place.glob("*.whl"))
    if len(wheel_paths) != 1:
        raise SetupError(
            f"The image takes a wheel from {place}, which holds {len(wheel_paths)}. Build it "
            "first, on a machine with the image's Debian and Python; Horovod's: python "
            "scripts/horovod_wheel.py --build, as the user who builds images."
        )
    return wheel_paths[0]


def _pack_training_runtime(folder: Path) -> Path:
    """Write this installation's training runtime as a wheel to ``folder``
    (packaging.python.org/en/latest/specifications/binary-distribution-format).
    """
    files = package_file_collection.collect_files_with_kernel()
    compiled = any(path.endswith(".so") for path in files)
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"py3-none-{platform if compiled else 'any'}"
    own = distribution(OWN)
    name = f"{OWN.replace('-', '_')}-{own.version}"
    info = f"{name}.dist-info"
    for file in ("METADATA", "entry_points.txt"):
        files[f"{info}/{file}"] = (own.read_text(file) or "").encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: aitne\nRoot-Is-Purelib: {str(not compiled).lower()}\n"
        f"Tag: {tag}\n"
    ).encode()
    record = "".join(
        f"{path},sha256={_record_hash(data)},{len(data)}\n" for path, data in files.items()
    )
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    target = folder / f"{name}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, _DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return target


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _compute_digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
