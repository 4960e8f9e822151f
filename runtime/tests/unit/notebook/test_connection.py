"""Files by which kernels and ranks find each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne_train.notebook import rank_group_connection_files
from aitne_train.notebook.rank_group_connection_files import ConnectionFilesError, Status


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "ranks" / "group"
    rank_group_connection_files.create_folder(path)
    return path


def test_files_are_readable_by_their_owner_only(folder: Path) -> None:
    rank_group_connection_files.write_file(
        folder, rank_group_connection_files.CLIENT, {"key": "secret"}
    )
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / rank_group_connection_files.CLIENT).stat().st_mode & 0o777 == 0o600
    assert rank_group_connection_files.read_file(folder, rank_group_connection_files.CLIENT) == {
        "key": "secret"
    }


def test_a_folder_that_others_can_read_is_refused(folder: Path) -> None:
    rank_group_connection_files.write_file(folder, rank_group_connection_files.CLIENT, {})
    folder.chmod(0o755)
    with pytest.raises(ConnectionFilesError, match="only this account can read"):
        rank_group_connection_files.read_file(folder, rank_group_connection_files.CLIENT)


def test_a_link_instead_of_a_file_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("{}")
    (folder / rank_group_connection_files.CLIENT).symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match=r"client\.json"):
        rank_group_connection_files.read_file(folder, rank_group_connection_files.CLIENT)


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_a_damaged_file_is_named(folder: Path, text: str) -> None:
    (folder / rank_group_connection_files.STATUS).write_text(text)
    with pytest.raises(ConnectionFilesError, match=r"status\.json is damaged"):
        rank_group_connection_files.read_status(folder)


def test_a_status_is_read_as_it_was_written(folder: Path) -> None:
    status = Status("group", "session", "ready", 4, 4, busy=(1, 3), release_at=5.0)
    rank_group_connection_files.write_status(folder, status)
    assert rank_group_connection_files.read_status(folder) == status


def test_status_of_another_release_is_read(folder: Path) -> None:
    written = {"group": "g", "session": "", "state": "ready", "size": 2, "registered": 2}
    rank_group_connection_files.write_file(
        folder, rank_group_connection_files.STATUS, {**written, "added": [1]}
    )
    assert rank_group_connection_files.read_status(folder) == Status("g", "", "ready", 2, 2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"size": "2"}, "size is '2', not of the type int"),
        ({"size": True}, "size is True"),
        ({"release_at": []}, "release_at is"),
        ({"busy": {}}, "busy is"),
    ],
)
def test_status_with_a_value_of_another_type_is_damaged(
    folder: Path, change: dict[str, object], reason: str
) -> None:
    written = {"group": "g", "session": "", "state": "ready", "size": 2, "registered": 2}
    rank_group_connection_files.write_file(
        folder, rank_group_connection_files.STATUS, {**written, **change}
    )
    with pytest.raises(ConnectionFilesError, match=f"damaged: {reason}"):
        rank_group_connection_files.read_status(folder)


def test_rank_without_its_node_is_damaged() -> None:
    with pytest.raises(ConnectionFilesError, match=r"client\.json is damaged: node is missing"):
        rank_group_connection_files.read_ranks({"ranks": [{"rank": 0, "local_rank": 0, "pid": 1}]})


def test_files_of_an_earlier_attempt_are_removed(folder: Path) -> None:
    rank_group_connection_files.write_file(
        folder, rank_group_connection_files.ENGINE, {"key": "old"}
    )
    rank_group_connection_files.create_folder(folder)
    assert list(folder.iterdir()) == []


def test_a_folder_with_other_files_is_kept(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "thesis.tex").touch()
    with pytest.raises(
        rank_group_connection_files.ConnectionFilesError, match="contains other files"
    ):
        rank_group_connection_files.create_folder(folder)
    assert (folder / "thesis.tex").exists()


def test_groups_of_this_account_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(rank_group_connection_files.FOLDER, raising=False)
    monkeypatch.delenv(rank_group_connection_files.SESSION, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("b", "a"):
        rank_group_connection_files.create_folder(tmp_path / ".aitne" / "ranks" / name)
    assert [path.name for path in rank_group_connection_files.list_folders()] == ["a", "b"]
    monkeypatch.setenv(rank_group_connection_files.FOLDER, "~/chosen")
    assert list(rank_group_connection_files.list_folders()) == [tmp_path / "chosen"]
    monkeypatch.setenv(rank_group_connection_files.SESSION, "session")
    assert [path.name for path in rank_group_connection_files.list_folders()] == [
        "chosen",
        "a",
        "b",
    ]


def test_a_missing_file_is_a_sentence_after_the_time(folder: Path) -> None:
    with pytest.raises(ConnectionFilesError, match="did not appear within 0 s"):
        rank_group_connection_files.wait_for_file(folder, rank_group_connection_files.ENGINE, 0)
