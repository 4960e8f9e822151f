from __future__ import annotations

from pathlib import Path

import pytest

from aitne.core.settings import Settings
from aitne.local_system.http_status_client import PROBE_SOCKET
from aitne.local_system.settings_loader import load_settings
from aitne.supervisor import plan_creation
from aitne.supervisor.plan_creation import make_plan, make_settings_env
from aitne.supervisor.supervisor_plan import SupervisorPlan


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("AITNE_TOKEN", "aitne_pat_secret")
    monkeypatch.setenv("AITNE_SESSION_ENV", str(tmp_path / "session"))
    monkeypatch.setattr(
        plan_creation.software_environments, "proxy_command", lambda root: ["node", "proxy.js"]
    )
    return Settings.model_validate(
        {
            "data_dir": tmp_path / "data",
            "port": 9_100,
            "title": 'Quotes " and {braces}',
            "templates": [tmp_path / "one", tmp_path / "two"],
            "local": {"nodes": 2, "memory": "16G", "gpus": "a100:4"},
            "auth": {"session_lifetime": "2h"},
        }
    )


def test_children_load_the_same_settings(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in make_settings_env(settings).items():
        monkeypatch.setenv(name, value)
    assert load_settings() == settings


def test_children_cannot_speak_to_the_service_manager(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.setenv(name, "1")
    assert (
        not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & make_plan(settings).base_env.keys()
    )


def test_the_plan_has_every_process_and_no_secret(settings: Settings) -> None:
    plan = make_plan(settings)
    assert [child.name for child in plan.children] == ["api", "controller", "hub", "proxy"]
    assert [child.port for child in plan.children] == [9_100, None, 9_102, 9_101]
    assert plan.base_env["AITNE_SESSION_ENV"].endswith("/session")
    assert "AITNE_TOKEN" not in plan.base_env


def test_the_end_of_the_platform_ends_its_own_jobs_and_no_clusters(settings: Settings) -> None:
    assert make_plan(settings).drain
    assert not make_plan(settings.model_copy(update={"scheduler": "slurm_cli"})).drain


def test_the_sessions_proxy_does_not_know_the_portals_port(settings: Settings) -> None:
    proxy = make_plan(settings).children[-1]
    assert not any("9100" in word for word in proxy.argv)
    assert "--default-target" not in proxy.argv


def test_the_api_alone_is_probed_on_a_socket_of_its_own(settings: Settings) -> None:
    sockets = {child.name: child.probe_socket for child in make_plan(settings).children}
    assert sockets == {"api": PROBE_SOCKET, "controller": None, "hub": None, "proxy": None}


def test_a_plan_is_read_as_it_was_written(settings: Settings, tmp_path: Path) -> None:
    plan = make_plan(settings)
    path = plan.write(tmp_path)
    assert SupervisorPlan.read(tmp_path) == plan
    assert path.stat().st_mode & 0o777 == 0o600


def test_tls_gives_the_proxy_its_certificates_and_closes_plain_addresses(
    settings: Settings,
) -> None:
    plain = make_plan(settings).children[3]
    assert not [part for part in plain.argv if "ssl" in part]
    assert plain.env["AITNE_PROXY_HSTS"] == ""
    secure = Settings.model_validate({**settings.model_dump(), "tls": {"enabled": True}})
    plan = make_plan(secure)
    proxy, hub = plan.children[3], plan.children[2]
    assert plan.url.startswith("https://")
    assert plan.ready_url == "http://127.0.0.1:9104/readyz"
    for option in ("--ssl-cert", "--client-ssl-cert", "--client-ssl-ca"):
        assert proxy.argv[proxy.argv.index(option) + 1].startswith(str(settings.data_dir))
    assert proxy.env["AITNE_PROXY_HSTS"] == "max-age=31536000"
    assert hub.env["AITNE_HUB_TLS_KEY"].startswith(str(settings.secrets_dir))
