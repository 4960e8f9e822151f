"""uv installs from where pip is configured to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aitne.supervisor import uv_package_installation


def test_pip_configuration_is_translated_with_its_precedence() -> None:
    configuration = "\n".join(
        [
            ":env:.find-links='/opt/wheels /srv/wheels'",
            "global.extra-index-url='file:///a/simple file:///b/simple'",
            "global.find-links='/elsewhere'",
            "global.index-url='http://mirror.test/simple'",
            "global.timeout='60'",
            "install.index-url='http://user:secret@mirror.test/simple'",
            "freeze.timeout='10'",
        ]
    )
    assert uv_package_installation.translate_pip_configuration(configuration) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "http://user:secret@mirror.test/simple",
        "UV_INDEX": "file:///a/simple file:///b/simple",
        "UV_FIND_LINKS": "/opt/wheels,/srv/wheels",
    }


@pytest.mark.parametrize(
    "name", ["keyring-provider", "no-index", "only-binary", "require-hashes", "proxy"]
)
def test_setting_without_counterpart_leaves_installation_to_pip(name: str) -> None:
    assert (
        uv_package_installation.translate_pip_configuration(
            f"global.timeout='60'\nglobal.{name}='x'"
        )
        is None
    )


def test_index_credentials_are_not_in_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@mirror.test/simple")
    prepared = uv_package_installation.make_install_command(
        sys.executable, ["numpy"], compiled=True
    )
    assert prepared is not None
    argv, environ = prepared
    assert Path(argv[0]).name == "uv"
    assert "secret" not in " ".join(argv)
    assert environ["UV_DEFAULT_INDEX"] == "http://user:secret@mirror.test/simple"
    assert environ["UV_COMPILE_BYTECODE"] == "1"


def test_option_not_to_compile_is_accepted() -> None:
    requirement = ["--no-compile", "--dry-run", "--offline", "uv"]
    prepared = uv_package_installation.make_install_command(
        sys.executable, requirement, compiled=False
    )
    assert prepared is not None
    argv, environ = prepared
    completed = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr


def test_sources_of_packages_are_named_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@mirror.test/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "/opt/wheels")
    named = [
        uv_package_installation.without_password(source)
        for source in uv_package_installation.list_package_indexes()
    ]
    assert named[0] == "http://mirror.test/simple"
    assert "/opt/wheels" in named
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert uv_package_installation.list_package_indexes() == ["the indexes in pip's settings"]
