"""Making a folder's manifest and comparing a folder with one, on real files."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aitne.client import checksum_journal, file_hashing
from aitne.client.manifests import Progress, Verification, make, verify
from aitne.core.dataset_manifest import (
    ManifestError,
    ManifestFile,
    ManifestLink,
    escape_path,
    parse_manifest,
)
from aitne.core.errors import InvalidInput
from tests.support.waiting import eventually

ODD = [b"a b", b"new\nline", b"tab\t", b"quo'te\"", b"\xff\xfe", "é".encode(), b"-rf", b"\\x41"]
HALF_WAY = """
import sys
from pathlib import Path
from aitne.client.manifests import make, verify

def heard(progress):
    if progress.done_files and progress.stage == "read":
        print(progress.done_files, flush=True)
        sys.stdin.read()

root, text, journal = sys.argv[1:]
if text:
    verify(root, [Path(text).read_bytes()], journal_dir=Path(journal), heard=heard)
else:
    make(root, journal_dir=Path(journal), heard=heard)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A dataset with an odd name in each folder, a link, an empty file and an empty folder."""
    root = tmp_path / "data"
    for number, name in enumerate(ODD):
        folder = os.fsencode(root) + b"/" + ODD[-number - 1] + b"-dir"
        os.makedirs(folder)
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(name * number)
    (root / "empty").mkdir()
    (root / "link").symlink_to("a b-dir")
    return root


def differing(found: Verification) -> set[tuple[str, str]]:
    return {(each.path, each.kind) for each in found.differences}


def test_every_sum_is_what_sha256sum_says(data: Path) -> None:
    files = [
        os.fsencode(each) for each in data.rglob("*") if each.is_file() and "link" not in each.parts
    ]
    said = subprocess.run(["sha256sum", "-z", "--", *files], capture_output=True, check=True).stdout
    expected = {
        (line[66:].removeprefix(os.fsencode(data) + b"/"), line[:64].decode())
        for line in said.split(b"\0")[:-1]
    }
    made = make(data)

    assert made.problems == []
    assert {(each.path, each.sha256) for each in made.files} == expected
    assert made.links == [ManifestLink(b"link", b"a b-dir")]
    assert set(parse_manifest([made.text])) == {*made.files, *made.links}
    assert made.digest == hashlib.sha256(made.text).hexdigest()
    assert verify(data, [made.text]).ok


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=40),
    large=st.integers(1, 2000),
    buffer=st.integers(1, 2000),
    batch=st.integers(1, 9),
)
def test_sums_do_not_depend_on_how_the_work_is_cut(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], large: int, buffer: int, batch: int
) -> None:
    root = tmp_path_factory.mktemp("cut")
    for number, size in enumerate(sizes):
        (root / str(number)).write_bytes(os.urandom(size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_hashing, "LARGE", large)
        patch.setattr(file_hashing, "BUFFER", buffer)
        patch.setattr(file_hashing, "BATCH_FILES", batch)
        made = make(root, workers=3)
    assert {each.path: each.sha256 for each in made.files} == {
        str(number).encode(): hashlib.sha256((root / str(number)).read_bytes()).hexdigest()
        for number in range(len(sizes))
    }


def test_each_difference_is_found_and_named(data: Path) -> None:
    (data / "short").write_bytes(b"123")
    (data / "goes").write_bytes(b"x")
    (data / "becomes-link").write_bytes(b"x")
    (data / "other-link").symlink_to("short")
    text = make(data).text
    changed = data / os.fsdecode(ODD[-1 - 4] + b"-dir") / os.fsdecode(ODD[4])
    old = changed.read_bytes()
    times = changed.stat()
    changed.write_bytes(bytes([old[0] ^ 1]) + old[1:])
    os.utime(changed, ns=(times.st_atime_ns, times.st_mtime_ns))
    (data / "short").write_bytes(b"1234")
    (data / "goes").unlink()
    (data / "becomes-link").unlink()
    (data / "becomes-link").symlink_to("short")
    (data / "other-link").unlink()
    (data / "other-link").symlink_to("empty")
    (data / "link").unlink()
    (data / "link").write_bytes(b"")
    (data / "empty" / "more\n").write_bytes(b"")

    found = verify(data, [text])
    assert not found.ok
    assert differing(found) == {
        (escape_path(os.fsencode(changed.relative_to(data))), "differs"),
        ("short", "differs"),
        ("goes", "missing"),
        ("becomes-link", "differs"),
        ("other-link", "differs"),
        ("link", "differs"),
        ("empty/more\\n", "additional"),
    }
    reasons = {each.path: each.reason for each in found.differences}
    assert reasons["short"] == "has 4 bytes instead of 3"
    assert reasons["other-link"] == "points to empty instead of short"


def test_dataset_files_of_unsupported_kind_are_named(data: Path) -> None:
    os.mkfifo(data / "pipe")
    (data / "out").symlink_to("../../etc/passwd")
    (data / "absolute").symlink_to(data / "empty")
    (data / "fine").write_bytes(b"x")
    with socket.socket(socket.AF_UNIX) as line:
        here = os.open(data, os.O_RDONLY)
        try:
            line.bind(f"/proc/self/fd/{here}/sock")
        finally:
            os.close(here)
        made = make(data)
    reasons = {each.path: each.reason for each in made.problems}
    assert made.text == b""
    assert reasons.keys() == {b"pipe", b"out", b"absolute", b"sock"}
    assert "named pipe" in reasons[b"pipe"]
    assert "socket" in reasons[b"sock"]
    assert "out of its folder" in reasons[b"out"]
    assert "make it relative" in reasons[b"absolute"]


@pytest.mark.skipif(os.geteuid() != 0, reason="root reads everything: needs a second user")
def test_unreadable_dataset_files_are_named() -> None:
    with TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "closed").mkdir()
        (root / "closed" / "below").write_bytes(b"x")
        (root / "secret").write_bytes(b"x")
        (root / "open").write_bytes(b"x")
        text = make(root).text
        (root / "closed").chmod(0o700)
        (root / "secret").chmod(0o600)
        os.seteuid(65_534)
        try:
            made, found = make(root), verify(root, [text])
        finally:
            os.seteuid(0)
    assert {(each.path, each.kind) for each in made.problems} == {
        (b"closed", "unreadable"),
        (b"secret", "unreadable"),
    }
    assert all("Permission denied" in each.reason for each in made.problems)
    # What lies in a folder that may not be listed is not called missing.
    assert differing(found) == {("closed", "unreadable"), ("secret", "unreadable")}


def test_a_folder_that_is_none_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "empty" / "below").mkdir(parents=True)
    for name, said in [
        ("nothing", "No such file"),
        ("file", "not a folder"),
        ("empty", "has no files"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            make(tmp_path / name)
    with pytest.raises(ManifestError):
        verify(tmp_path, [b"rubbish"])


@pytest.mark.parametrize("what", ["written", "made", "removed", "linked"])
def test_file_changed_during_manifest_creation_is_reported(data: Path, what: str) -> None:
    file = data / "victim"
    file.write_bytes(b"before")

    def heard(progress: Progress) -> None:
        if progress.stage != "check":
            return
        if what == "written":
            file.write_bytes(b"after!")
        elif what == "made":
            (data / "victim2").write_bytes(b"")
        elif what == "removed":
            file.unlink(missing_ok=True)
        else:
            (data / "link").unlink()
            (data / "link").symlink_to("empty")

    made = make(data, heard=heard)
    name = {"made": b"victim2", "linked": b"link"}.get(what, b"victim")
    assert [(each.path, each.kind) for each in made.problems] == [(name, "changed")]
    assert made.text == b""


def test_a_file_that_is_written_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    (root / "large").write_bytes(bytes(64 << 20))
    over = threading.Event()

    def write() -> None:
        with (root / "large").open("r+b") as file:
            while not over.is_set():
                file.seek(0)
                file.write(os.urandom(8))
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = make(root)
    finally:
        over.set()
        writer.join()
    assert [(each.path, each.kind) for each in made.problems] == [(b"large", "changed")]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    root = tmp_path / "many"
    root.mkdir()
    for number in range(3 * file_hashing.BATCH_FILES):
        (root / f"{number:04}").write_bytes(b"%d" % number)
    return root


def killed_half_way(root: Path, text: str, journals: Path) -> int:
    """Kill a process half way; return the number of files that it reported as read."""
    with subprocess.Popen(
        [sys.executable, "-c", HALF_WAY, root, text, journals],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        read = int(process.stdout.readline())
        process.kill()
    return read


def test_a_killed_run_goes_on_where_it_stopped(many: Path, tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    read = killed_half_way(many, "", journals)
    assert 0 < read < 3 * file_hashing.BATCH_FILES
    (many / "0000").write_bytes(b"1")
    kept = list[int]()
    made = make(many, journal_dir=journals, heard=lambda now: kept.append(now.kept_files))

    assert kept[-1] in (read, read - 1)
    assert made.text == make(many).text
    make(many, journal_dir=journals, heard=lambda now: kept.append(now.kept_files))
    assert kept[-1] == 3 * file_hashing.BATCH_FILES
    made.delete_journal()
    assert list(journals.iterdir()) == []

    text = tmp_path / "text"
    text.write_bytes(made.text)
    read = killed_half_way(many, str(text), journals)
    found = verify(
        many,
        [made.text],
        journal_dir=journals,
        heard=lambda now: kept.append(now.kept_files),
    )
    assert found.ok
    assert kept[-1] == read
    assert list(journals.iterdir()) == []


def test_a_kept_sum_holds_only_while_the_file_is_the_same(many: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(make(many).text)
    journals = tmp_path / "journals"
    killed_half_way(many, str(text), journals)
    for file in many.iterdir():
        times = file.stat()
        old = file.read_bytes()
        file.write_bytes(old[:-1] + b"x")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    found = verify(many, [text.read_bytes()], journal_dir=journals)
    assert len(found.differences) == 3 * file_hashing.BATCH_FILES


@pytest.mark.parametrize("damage", ["cut", "rubbish", "old", "folder", "missing"])
def test_a_damaged_journal_is_no_harm(
    many: Path, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals = tmp_path / "journals"
    read = killed_half_way(many, "", journals)
    [file] = journals.iterdir()
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-20])
    elif damage == "rubbish":
        file.write_bytes(os.urandom(5_000) + b"\n" + file.read_bytes())
    elif damage == "old":
        monkeypatch.setattr(checksum_journal, "LONGEST_AGE_S", -1)
    elif damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        journals = Path("/proc/nowhere")
    kept = list[int]()
    made = make(many, journal_dir=journals, heard=lambda now: kept.append(now.kept_files))
    assert made.text == make(many).text
    expected = {"cut": read - 1, "rubbish": read}.get(damage, 0)
    assert kept[-1] == expected


def test_old_journals_do_not_pile_up(many: Path, tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    killed_half_way(many, "", journals)
    [left] = journals.iterdir()
    week_ago = left.stat().st_mtime - checksum_journal.LONGEST_AGE_S - 1
    os.utime(left, (week_ago, week_ago))
    (many / "below").mkdir()
    (many / "below" / "file").write_bytes(b"x")
    make(many / "below", journal_dir=journals).delete_journal()
    assert list(journals.iterdir()) == []


def test_an_interruption_stops_soon_and_keeps_what_was_read(many: Path, tmp_path: Path) -> None:
    def interrupted(progress: Progress) -> None:
        if progress.done_files and progress.stage == "read":
            raise KeyboardInterrupt

    journals = tmp_path / "journals"
    with pytest.raises(KeyboardInterrupt):
        make(many, journal_dir=journals, heard=interrupted)
    eventually("the threads' end", lambda: not _hashing())
    kept = list[int]()
    make(many, journal_dir=journals, heard=lambda now: kept.append(now.kept_files))
    assert kept[-1] >= file_hashing.BATCH_FILES


def _hashing() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("hash-")]


def test_a_second_run_beside_the_first_is_right_too(many: Path, tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    texts = list[bytes]()
    begun = threading.Event()

    def heard(progress: Progress) -> None:
        if progress.stage == "read" and not begun.is_set():
            begun.set()
            texts.append(make(many, journal_dir=journals).text)

    texts.append(make(many, journal_dir=journals, heard=heard).text)
    assert len(texts) == 2
    assert texts[0] == texts[1]
    assert ManifestFile(b"0000", 1, hashlib.sha256(b"0").hexdigest()) in list(
        parse_manifest([texts[0]])
    )


def test_progress_reaches_its_total(data: Path) -> None:
    seen = list[tuple[str, int, int, int]]()
    make(
        data,
        heard=lambda now: seen.append((now.stage, now.done_bytes, now.total_bytes, now.done_files)),
    )
    stages = [stage for stage, *_ in seen]
    assert sorted(set(stages), key=stages.index) == ["list", "read", "check"]
    last = [each for each in seen if each[0] == "read"][-1]
    assert last[1] == last[2] == sum(len(name) * number for number, name in enumerate(ODD))
    assert [each[1] for each in seen if each[0] == "read"] == sorted(
        each[1] for each in seen if each[0] == "read"
    )
