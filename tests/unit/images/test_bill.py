"""Tests of the software bill from the files of dpkg and pip, which may be forged."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.images import software_bill
from aitne.core.models.image import Package

STATUS = """Package: bash
Essential: yes
Status: install ok installed
Version: 5.2.15-2+b7
Description: GNU Bourne Again SHell
 Version: 9 is not what it says here

Package: gone
Status: deinstall ok config-files
Version: 1

Package: half
Status: install ok unpacked
Version: 1
"""
METADATA = "Metadata-Version: 2.4\nName: numpy\nVersion: 2.4.6\n\nVersion: 1 of the text\n"

NAMES = st.from_regex(r"[a-z0-9][a-z0-9+.-]{0,30}", fullmatch=True)


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_only_what_is_installed_is_on_the_bill() -> None:
    assert software_bill.parse_debian_packages(STATUS) == [
        Package(name="bash", version="5.2.15-2+b7", source="debian")
    ]


def test_a_root_file_system_has_a_bill_of_both_kinds(tmp_path: Path) -> None:
    write(tmp_path, "var/lib/dpkg/status", STATUS)
    write(tmp_path, "opt/x/lib/python3.11/site-packages/numpy-2.4.6.dist-info/METADATA", METADATA)
    # Debian's own Python packages are on the bill as Debian's.
    write(tmp_path, "usr/lib/python3/dist-packages/six-1.dist-info/METADATA", METADATA)
    assert [(each.source, each.name) for each in software_bill.read_software_bill(tmp_path)] == [
        ("debian", "bash"),
        ("python", "numpy"),
    ]


def test_files_outside_image_root_are_not_read(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    write(outside, "lib/dpkg/status", STATUS)
    write(outside, "METADATA", METADATA)
    root.mkdir()
    (root / "var").symlink_to(outside)
    info = root / "opt/x-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").symlink_to(outside / "METADATA")
    assert software_bill.read_software_bill(root) == ()


def test_a_pipe_in_the_place_of_the_list_holds_nobody_up(tmp_path: Path) -> None:
    import os

    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    os.mkfifo(tmp_path / "var/lib/dpkg/status")
    assert software_bill.read_software_bill(tmp_path) == ()


@given(st.dictionaries(NAMES, NAMES, max_size=20))
def test_every_installed_package_is_found_with_its_version(packages: dict[str, str]) -> None:
    text = "\n\n".join(
        f"Package: {name}\nStatus: install ok installed\nVersion: {version}"
        for name, version in packages.items()
    )
    found = {each.name: each.version for each in software_bill.parse_debian_packages(text)}
    assert found == packages


@given(st.text())
def test_any_text_is_a_bill_or_none(text: str) -> None:
    for package in [
        *software_bill.parse_debian_packages(text),
        software_bill.parse_python_package(text),
    ]:
        if package is not None:
            assert package.name.isprintable()
            assert package.version.isprintable()
