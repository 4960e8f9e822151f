"""Which upgrades are supported, and how the platform is started again."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from aitne.core.errors import InvalidInput
from aitne.operations.upgrade.platform_service import _parse_unit, select_start_environment
from aitne.operations.upgrade.versions import Version, check_upgrade_path, parse_wheel_version


@pytest.mark.parametrize(
    ("present", "target"),
    [("0.1.0", "0.1.1"), ("0.1.0", "0.2.0"), ("0.1.3", "0.2.7"), ("0.9.0", "1.0.2")],
)
def test_next_minor_release_is_accepted(present: str, target: str) -> None:
    check_upgrade_path(Version.parse(present), Version.parse(target))


@pytest.mark.parametrize(
    ("present", "target", "message"),
    [
        ("0.1.0", "0.3.0", r"Upgrade to 0\.2 first"),
        ("0.1.0", "0.1.0", "installed already"),
        ("0.2.0", "0.1.9", "is older"),
        ("0.10.0", "0.9.0", "is older"),
        ("0.9.0", "1.1.0", r"last release of 0\.x"),
        ("0.9.0", "2.0.0", r"last release of 0\.x"),
    ],
)
def test_other_upgrades_are_refused_with_the_way_to_go(
    present: str, target: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_upgrade_path(Version.parse(present), Version.parse(target))


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "v1.2.3", "1.2.3rc1", "1.2.3 ", "01.2.3", "1.2.-3"]
)
def test_text_that_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="MAJOR"):
        Version.parse(text)


def test_release_of_a_wheel_is_in_its_name(tmp_path: Path) -> None:
    wheel = tmp_path / "aitne-0.2.0-py3-none-any.whl"
    with pytest.raises(InvalidInput, match="not a wheel"):
        parse_wheel_version(wheel)
    wheel.write_text("half of a download")
    with pytest.raises(InvalidInput, match="not a wheel"):
        parse_wheel_version(wheel)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("aitne/__init__.py", "")
    assert parse_wheel_version(wheel) == Version(0, 2, 0)
    other = tmp_path / "numpy-2.0.0-cp311-cp311-linux_x86_64.whl"
    shutil.copy(wheel, other)
    with pytest.raises(InvalidInput, match="not a wheel of the platform"):
        parse_wheel_version(other)


def test_platform_is_started_with_its_options_and_variables_but_not_its_defaults() -> None:
    base = {
        "PATH": "/bin",
        "AITNE_CONFIG": "/srv/aitne.toml",
        "AITNE_DATA_DIR": "/srv",
        "AITNE_PORT": "8100",
        "AITNE_SCHEDULER": "local",
        "AITNE_TITLE": "Aitne",
        "AITNE_TLS": '{"enabled": true, "key": null}',
        "AITNE_SOURCES": json.dumps(
            {
                "port": ["command_line", None],
                "scheduler": ["file", "/srv/aitne.toml:1"],
                "tls.enabled": ["environment", "AITNE_TLS__ENABLED"],
            }
        ),
    }
    assert select_start_environment(base) == {
        "PATH": "/bin",
        "AITNE_CONFIG": "/srv/aitne.toml",
        "AITNE_PORT": "8100",
        "AITNE_TLS__ENABLED": "true",
    }


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/aitne.service\n", "aitne.service"),
        ("12:pids:/system.slice/aitne.service\n1:name=systemd:/\n", "aitne.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service\n", None),
        ("0::/user.slice/user-1000.slice/session-1.scope\n", None),
        ("", None),
    ],
)
def test_unit_of_a_process_is_read_from_its_cgroup(cgroup: str, unit: str | None) -> None:
    assert _parse_unit(cgroup) == unit
