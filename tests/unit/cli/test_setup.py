"""``aitne admin setup`` as an administrator runs it, below another root."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from aitne.cli.main import main
from tests.support.broker import as_uid, skip_if_code_is_private
from tests.unit.cli.conftest import Aitne

ANSWERS = """\
# A comment that stays.
scheduler = "local"
public_url = "http://127.0.0.1:8000"
sessions_url = "http://*.localhost:8001"
database = "postgresql://aitne:hidden@db.example.org/aitne"
"""
TYPED = [
    *("local", "", "https://aitne.example.org", "https://*.aitne-sessions.org", "nginx", "files"),
    *("/etc/ssl/a.pem", "/etc/ssl/a.key", "", "", "", "", ""),
]
"""Lines of an administrator at the terminal, up to the last question."""


class Site:
    """The root file system of another machine, and the command for it."""

    def __init__(self, aitne: Aitne, folder: Path) -> None:
        self._aitne = aitne
        self.root = folder / "root"
        (self.root / "etc").mkdir(parents=True)
        (self.root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\naitne:x:998:997::/:/x\n")
        (self.root / "etc/group").write_text("root:x:0:\naitne:x:997:\n")
        self.answers = folder / "answers.toml"
        self.answers.write_text(ANSWERS)

    def setup(self, *options: str, typed: str | None = None) -> Any:
        words = ["admin", "setup", "--root", str(self.root), *options]
        return self._aitne(*words, typed=typed)

    def given(self, *options: str, typed: str | None = None) -> Any:
        """Run it with the file of answers."""
        return self.setup("--answers", str(self.answers), *options, typed=typed)

    def tree(self) -> dict[str, tuple[int, str]]:
        """Return mode and content of every file by its path."""
        return {
            str(path.relative_to(self.root)): (path.stat().st_mode, path.read_text())
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def site(aitne: Aitne, tmp_path: Path) -> Site:
    return Site(aitne, tmp_path)


def test_dry_run_shows_a_diff_without_the_password_and_writes_no_file(site: Site) -> None:
    before = site.tree()

    shown = site.given("--dry-run")

    assert shown.status == 0
    assert "+++ /etc/aitne/aitne.toml" in shown.out
    assert '+public_url = "http://127.0.0.1:8000"' in shown.out
    assert "postgresql://aitne:***@db.example.org/aitne" in shown.out
    assert "hidden" not in shown.out + shown.err
    assert f"Would: Create {site.root}/etc/systemd/system/aitne.service." in shown.err
    assert site.tree() == before


def test_second_run_with_the_same_answers_changes_no_file(site: Site) -> None:
    first = site.given("--yes", "--json")
    before = site.tree()

    second = site.given("--yes", "--json")

    assert first.json["written"]
    assert {file["state"] for file in first.json["files"]} == {"created"}
    assert not second.json["written"]
    assert {file["state"] for file in second.json["files"]} == {"unchanged"}
    assert second.json["checks"][0]["state"] == "skipped"
    assert site.tree() == before


def test_setup_enables_the_platform_with_daily_checks_and_backups(site: Site) -> None:
    if shutil.which("systemctl") is None:
        pytest.skip("there is no systemctl")
    answers = "enable = true\n" + ANSWERS + '\n[backup]\nto = "/srv/backups"\n'
    site.answers.write_text(answers)

    done = site.given("--yes")

    assert done.status == 0, done.err
    units = site.root / "etc/systemd/system"
    timers = {path.name for path in units.glob("timers.target.wants/*")}
    assert timers == {"aitne-backup.timer", "aitne-doctor.timer"}
    assert "Nothing was changed." in site.given("--yes").err


def test_files_have_modes_that_hide_the_password_from_other_accounts(site: Site) -> None:
    site.given("--yes")

    facts = {
        name: (site.root / "etc" / name).stat()
        for name in ("aitne/setup.toml", "aitne/aitne.toml", "systemd/system/aitne.service")
    }
    modes = {name: stat.S_IMODE(one.st_mode) for name, one in facts.items()}
    assert list(modes.values()) == [0o600, 0o640, 0o644]
    if os.geteuid() == 0:
        assert [(one.st_uid, one.st_gid) for one in facts.values()] == [(0, 0), (0, 997), (0, 0)]
    (site.root / "etc/aitne/aitne.toml").chmod(0o666)
    assert site.given("--yes").status == 0
    assert stat.S_IMODE((site.root / "etc/aitne/aitne.toml").stat().st_mode) == 0o640


def test_file_changed_by_hand_is_replaced_after_a_yes_alone_with_a_copy(site: Site) -> None:
    site.given("--yes")
    changed = site.root / "etc/aitne/aitne.toml"
    original = changed.read_text()
    changed.write_text(f"{original}# by hand\n")

    no_terminal = site.given()
    assert no_terminal.status == 2
    assert "-# by hand" in no_terminal.out
    assert "pass --yes" in no_terminal.err
    kept = site.given(typed="n\n")
    assert kept.status == 0
    assert f"{changed} is kept" in kept.err
    assert changed.read_text().endswith("# by hand\n")
    declined = site.given(typed="y\nn\n")
    assert declined.status == 1
    assert changed.read_text().endswith("# by hand\n")

    replaced = site.given("--json", typed="y\ny\n")

    (copy,) = map(Path, replaced.json["copies"])
    assert changed.read_text() == original
    assert copy.parent == changed.parent
    assert copy.read_text() == f"{original}# by hand\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o640


def test_failure_in_the_middle_leaves_every_file_as_before(site: Site) -> None:
    site.given("--yes")
    site.answers.write_text(ANSWERS + 'cluster = "x"\n')
    before = site.tree()
    unit = site.root / "etc/systemd/system/aitne.service"
    unit.unlink()
    unit.mkdir()

    failed = site.given("--yes")

    assert failed.status == 1
    assert f"{unit} cannot be replaced" in failed.err
    after = site.tree()
    del before["etc/systemd/system/aitne.service"]
    assert after == before


def test_answers_below_etc_keep_their_comments(site: Site) -> None:
    own = site.root / "etc/aitne/setup.toml"
    own.parent.mkdir()
    own.write_text(ANSWERS)

    assert site.setup("--answers", str(own), "--yes").status == 0

    assert own.read_text() == ANSWERS


def test_wrong_answers_are_sentences_and_write_no_file(site: Site) -> None:
    site.answers.write_text('scheduler = "pbs"\nport = "x"\n')
    before = site.tree()

    refused = site.given("--yes", "--json")

    assert refused.status == 2
    assert {problem["field"] for problem in refused.json["error"]["problems"]} == {
        *("scheduler", "port", "public_url", "sessions_url")
    }
    assert site.tree() == before


def test_questions_end_without_a_change_wherever_the_administrator_stops(site: Site) -> None:
    before = site.tree()

    for count in range(len(TYPED) + 1):
        stopped = site.setup(typed="".join(f"{line}\n" for line in TYPED[:count]))
        assert stopped.status == 130, (count, stopped.err)
        assert stopped.err.endswith("Nothing was changed.\n")
        assert site.tree() == before


def test_questions_repeat_after_a_wrong_answer_and_keep_the_answers(site: Site) -> None:
    wrong = ["pbs", *TYPED[:2], "ftp://x", TYPED[2], "https://*.s.aitne.example.org", *TYPED[3:]]
    wrong.insert(wrong.index("nginx"), "apache")
    created = site.setup(typed="".join(f"{line}\n" for line in [*wrong, "maybe", "n", "y"]))

    assert created.status == 0, created.err
    assert "pbs must be 'slurm' or 'local'. Try again." in created.err
    assert "ftp://x must be http:// or https:// and a host" in created.err
    assert "must not be below aitne.example.org" in created.err
    assert "apache must be 'nginx', 'caddy', 'other' or 'none'" in created.err
    assert "Answer y or n." in created.err
    assert (site.root / "etc/nginx/conf.d/aitne.conf").exists()
    again = site.setup(typed="\n" * (len(TYPED) + 1))
    assert again.status == 0, again.err
    assert "Nothing was changed." in again.err


def test_without_a_terminal_the_answers_are_required(site: Site) -> None:
    refused = site.setup()

    assert refused.status == 2
    assert "pass --answers FILE" in refused.err


def test_root_without_a_system_is_refused(site: Site, tmp_path: Path) -> None:
    (site.root / "etc/passwd").unlink()

    refused = site.given("--yes")

    assert refused.status == 1
    assert "contains no system" in refused.err
    missing = site.setup("--root", str(tmp_path / "nowhere"), "--answers", str(site.answers))
    assert missing.status == 2
    assert "is not a folder" in missing.err


def test_account_is_created_after_consent_alone(site: Site) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root creates accounts")
    passwd = site.root / "etc/passwd"
    passwd.write_text("root:x:0:0::/root:/bin/sh\n")
    (site.root / "etc/group").write_text("root:x:0:\n")

    refused = site.given("--yes")
    assert refused.status == 1
    assert "create_account = true" in refused.err
    assert not (site.root / "etc/aitne").exists()
    site.answers.write_text(ANSWERS + "create_account = true\n")
    assert site.given("--yes").status == 0

    name, _, uid, gid, *_ = passwd.read_text().splitlines()[-1].split(":")
    assert (name, int(uid) < 1_000) == ("aitne", True)
    assert (site.root / "etc/aitne/aitne.toml").stat().st_gid == int(gid)


def test_dry_run_of_an_account_other_than_root_says_what_is_unknown(
    aitne: Aitne, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another account")
    skip_if_code_is_private()
    key = tmp_path / "portal.key"
    key.touch(0o600)
    answers = tmp_path / "answers.toml"
    answers.write_text(
        'scheduler = "local"\npublic_url = "https://localhost:8000"\n'
        'sessions_url = "https://localhost:8001"\n[certificates]\nsource = "files"\n'
        f'portal = "{key}"\nportal_key = "{key}"\n'
    )
    words = ["admin", "setup", "--answers", str(answers), "--json"]
    content = answers.read_text()

    def as_nobody() -> tuple[list[int], list[str]]:
        ends, outputs = [], []
        for option in ("--dry-run", "--yes"):
            reader, writer = os.pipe()
            os.write(writer, content.encode())
            os.close(writer)
            words[3] = f"/proc/self/fd/{reader}"
            with redirect_stdout(io.StringIO()) as out:
                ends.append(main([*words, option]))
            outputs.append(out.getvalue())
        return ends, outputs

    ends, outputs = as_uid(65_534, as_nobody)

    document, refused = map(json.loads, outputs)
    assert (ends, document["written"]) == ([1, 1], False)
    assert refused["error"]["message"].startswith("Only root writes these files")
    states = {check["name"]: check["state"] for check in document["checks"]}
    assert states["certificates.portal"] == "unknown"
    assert {"programs", "account", "ports", "dns", "database"} <= states.keys()
