"""Zabbix' template, imported into a real server that reads metrics with a token."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typing_extensions import override

from tests.support import realtime
from tests.support.metric_samples import SERIES, metrics_text
from tests.support.zabbix import Zabbix, zabbix

pytestmark = realtime.PROCESSES

TEMPLATE = Path(__file__).resolve().parents[3] / "monitoring" / "zabbix" / "aitne.yaml"
_TOKEN = "aitne_metrics_token"
_TIMEOUT_S = 180


def _template() -> dict[str, Any]:
    (template,) = yaml.safe_load(TEMPLATE.read_text())["zabbix_export"]["templates"]
    return dict(template)


class _Metrics(BaseHTTPRequestHandler):
    """Answers with the metrics to those that have the token."""

    def do_GET(self) -> None:
        """Serve the metrics to requests with the right token and path."""
        allowed = self.headers["Authorization"] == f"Bearer {_TOKEN}" and self.path == "/metrics"
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(metrics_text().encode() if allowed else b"")

    @override
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def _metrics() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Metrics)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _items(server: Zabbix, host: str) -> dict[str, Any]:
    fields = ["key_", "lastvalue", "lastclock", "error"]
    return {
        item["key_"]: item for item in server.call("item.get", {"hostids": host, "output": fields})
    }


def test_template_has_metrics_that_exist_and_keeps_the_token_secret() -> None:
    template = _template()
    (rule,) = template["discovery_rules"]
    dependent = [item for item in template["items"] if item["type"] == "DEPENDENT"]
    for item in (*dependent, rule, *rule["item_prototypes"]):
        pattern = item["preprocessing"][0]["parameters"][0]
        name = re.match(r"\w+", pattern)
        assert name is not None
        assert name[0] in SERIES
        assert set(re.findall(r"(\w+)(?:=~|=)\"", pattern)) <= SERIES[name[0]].keys()
        assert item["master_item"] == {"key": "aitne.metrics"}
    (token,) = (macro for macro in template["macros"] if macro["macro"] == "{$AITNE.TOKEN}")
    assert token["type"] == "SECRET_TEXT"
    assert "value" not in token
    assert sum(len(item.get("triggers", ())) for item in template["items"]) >= 10


@pytest.mark.long(third=1)
@pytest.mark.timeout(600)
def test_template_returns_values_and_raises_problems_in_zabbix(tmp_path: Path) -> None:
    """The import, every item's value, the discovered file systems and the triggers that fire."""
    with zabbix(tmp_path) as server, _metrics() as url:
        template = server.import_template(TEMPLATE)
        (group,) = server.call("hostgroup.get", {"filter": {"name": "Linux servers"}})
        macros = [
            {"macro": "{$AITNE.URL}", "value": url},
            {"macro": "{$AITNE.TOKEN}", "value": _TOKEN, "type": 1},
            {"macro": "{$AITNE.INTERVAL}", "value": "2s"},
        ]
        made = server.call(
            "host.create",
            {
                "host": "portal",
                "groups": [{"groupid": group["groupid"]}],
                "templates": [{"templateid": template}],
                "macros": macros,
            },
        )
        (host,) = made["hostids"]
        server.reload()
        expected = {item["key"] for item in _template()["items"]} - {"aitne.metrics"}
        expected |= {
            f"aitne.filesystem.free[{area}]"
            for area in SERIES["aitne_filesystem_size_bytes"]["area"]
        }
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            items = _items(server, host)
            missing = {key for key in expected if items.get(key, {}).get("lastclock", "0") == "0"}
            if not missing:
                break
            errors = {key: item["error"] for key, item in items.items() if item["error"]}
            assert time.monotonic() < deadline, f"{missing}: {errors}"
            server.reload()
            time.sleep(1)
        assert not [item["error"] for item in items.values() if item["error"]]
        assert float(items["aitne.jobs.pending"]["lastvalue"]) == 5
        assert float(items["aitne.nodes.down"]["lastvalue"]) == 5
        while True:
            problems = {
                problem["name"] for problem in server.call("problem.get", {"hostids": host})
            }
            if {
                "Aitne: the scheduler does not answer",
                "Aitne: a certificate expires soon",
            } <= problems:
                break
            assert time.monotonic() < deadline, problems
            time.sleep(1)
        (shown,) = server.call(
            "usermacro.get", {"hostids": host, "filter": {"macro": "{$AITNE.TOKEN}"}}
        )
        assert _TOKEN not in str(shown)
