"""Settings: where they come from, in which order, and what is said when one is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.local_system.dev_cluster_records import choose_dev_cluster, list_dev_clusters
from aitne.local_system.platform_folders import default_data_dir
from aitne.local_system.settings_loader import load_settings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AITNE_DATA_DIR", "AITNE_CONFIG", "XDG_DATA_HOME", "AITNE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_defaults_are_derived_from_one_port(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)
    assert settings.portal_url == "http://127.0.0.1:8000"
    assert settings.sessions_origin == "http://127.0.0.1:8001"
    assert (settings.port_of_hub, settings.port_of_proxy_api) == (8002, 8003)
    assert settings.database_url == f"sqlite:///{tmp_path}/aitne.db"


def test_the_later_source_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aitne.toml").write_text(
        'port = 1000\ntitle = "From file"\n[local]\ncpus = 2\nmemory = "4G"\n'
    )
    monkeypatch.setenv("AITNE_PORT", "2000")
    monkeypatch.setenv("AITNE_LOCAL__CPUS", "8")
    settings = load_settings(tmp_path)
    assert (settings.title, settings.port) == ("From file", 2000)
    assert (settings.local.cpus, settings.local.memory) == (8, 4 << 30)
    assert load_settings(tmp_path, port=3000).port == 3000
    assert load_settings(tmp_path, port=None).port == 2000


def test_variables_that_are_no_settings_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AITNE_SESSION_ENV", "/somewhere")
    monkeypatch.setenv("AITNE_STATE_HOME", "/somewhere")
    assert load_settings(tmp_path).data_dir == tmp_path


def test_the_data_dir_comes_from_the_environment_or_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_data_dir() == tmp_path / "home" / ".local" / "share" / "aitne"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert load_settings().data_dir == tmp_path / "xdg" / "aitne"
    monkeypatch.setenv("AITNE_DATA_DIR", str(tmp_path / "named"))
    assert load_settings().data_dir == tmp_path / "named"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 8000", "prot is not a setting"),
        ('port = "many"', "port = 'many': must be a whole number"),
        ("[limits]\nmax_duration = '4x'", "limits.max_duration = '4x': '4x' is not a dur"),
        ("[limits]\nmax_duration = 3600", "limits.max_duration = 3600: '3600' has no unit"),
        ("[limits]\nmax_result = 256", "limits.max_result = 256: '256' is not an amount"),
        ("[retention]\nkeep_jobs = 90", "retention.keep_jobs = 90: '90' has no unit"),
        ("[local]\ncpu = 2", "local.cpu is not a setting"),
        ("port = ", "cannot be read"),
        (
            'public_url = "http://x"\nsessions_url = "http://x/"',
            "sessions need an origin of their own",
        ),
    ],
)
def test_invalid_setting_is_reported_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "aitne.toml").write_text(text)
    with pytest.raises(SetupError) as caught:
        load_settings(tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path / "aitne.toml") in str(caught.value)


@pytest.mark.parametrize("bind", ["0.0.0.0", "::"])
def test_every_address_is_reached_by_loopback(bind: str) -> None:
    assert Settings(bind=bind).internal_url == "http://127.0.0.1:8000"


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert Settings(bind="::1").portal_url == "http://[::1]:8000"


@pytest.mark.parametrize("value", ["node", "10.1.0.0/16", "10.1.0.7", "fd00::/8"])
def test_where_sessions_listen(tmp_path: Path, value: str) -> None:
    assert load_settings(tmp_path, slurm={"agent_host": value}).slurm.agent_host == value


@pytest.mark.parametrize("value", ["", "nodes", "10.1.0.0/33", "eth0"])
def test_where_sessions_cannot_listen(tmp_path: Path, value: str) -> None:
    with pytest.raises(SetupError, match=r"slurm\.agent_host"):
        load_settings(tmp_path, slurm={"agent_host": value})


def test_the_file_does_not_say_where_it_lies_itself(tmp_path: Path) -> None:
    (tmp_path / "aitne.toml").write_text('data_dir = "/elsewhere"\n')
    with pytest.raises(SetupError, match="AITNE_DATA_DIR"):
        load_settings(tmp_path)


@pytest.mark.parametrize(
    "setting",
    [
        {"public_url": "http://portal.example.org"},
        {"slurm": {"portal_address": "http://login1:8000"}},
        {"slurm": {"sessions_address": "http://login1:8001"}},
    ],
)
def test_plain_addresses_are_refused_with_tls(tmp_path: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="must begin with https://"):
        Settings.model_validate({"data_dir": tmp_path, "tls": {"enabled": True}, **setting})


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        ({"enabled": True, "certificate": "/c.pem"}, "belong together"),
        ({"enabled": True, "sessions_certificate": "/c", "sessions_key": "/k"}, "needs tls.cert"),
        ({"certificate": "/c.pem", "key": "/k.pem"}, "with tls.enabled = true only"),
    ],
)
def test_certificates_of_tls_are_given_whole(
    tmp_path: Path, tls: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        Settings.model_validate({"data_dir": tmp_path, "tls": tls})


def test_the_only_development_cluster_is_used_and_several_must_be_named(tmp_path: Path) -> None:
    assert list_dev_clusters(tmp_path / "missing") == []
    for name in ("researcher", "new"):
        (tmp_path / f"{name}.json").write_text("{}")
    assert list_dev_clusters(tmp_path) == ["new", "researcher"]
    assert choose_dev_cluster([]) == "dev"
    assert choose_dev_cluster(["researcher"]) == "researcher"
    with pytest.raises(SetupError, match=r"new, researcher.*AITNE_SLURM__DEV_CLUSTER=new"):
        choose_dev_cluster(["new", "researcher"])
