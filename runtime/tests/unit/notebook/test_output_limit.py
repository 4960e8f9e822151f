"""The bound on what a rank sends to the notebook for a cell."""

from __future__ import annotations

from pathlib import Path

from aitne_train.notebook.output_limit import RICH_BYTES, OutputLimit


def test_output_beyond_the_bound_is_in_the_file_of_the_rank(tmp_path: Path) -> None:
    limit = OutputLimit(3, 64, tmp_path / "outputs")
    limit.begin_cell()
    lines = [f"line {number} ä\n" for number in range(20_000)]
    sent = "".join(limit.limit_text(line) for line in lines)
    cut = limit.end_cell()
    assert cut is not None
    kept = Path(cut["path"]).read_text()
    assert sent + kept == "".join(lines)
    assert len(sent.encode()) <= 128 << 10 < len("".join(lines).encode())
    assert cut["bytes"] == len(kept.encode())
    assert Path(cut["path"]).stat().st_mode & 0o077 == 0


def test_a_large_print_is_cut_at_a_line(tmp_path: Path) -> None:
    limit = OutputLimit(0, 64, tmp_path)
    limit.begin_cell()
    text = "".join(f"{number:06}\n" for number in range(40_000))
    sent = limit.limit_text(text)
    cut = limit.end_cell()
    assert cut is not None
    assert sent.endswith("\n")
    assert sent + Path(cut["path"]).read_text() == text


def test_the_next_cell_has_the_whole_bound_again(tmp_path: Path) -> None:
    limit = OutputLimit(0, 64, tmp_path)
    limit.begin_cell()
    assert limit.limit_text("x" * (1 << 20)) == ""
    limit.begin_cell()
    assert limit.limit_text("again") == "again"
    assert limit.end_cell() is None


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("a file")
    limit = OutputLimit(0, 64, tmp_path / "outputs")
    limit.begin_cell()
    limit.limit_text("x" * (1 << 20))
    cut = limit.end_cell()
    assert cut is not None
    assert "cannot be written" in cut["failure"]


def test_a_figure_that_is_too_large_becomes_a_sentence(tmp_path: Path) -> None:
    limit = OutputLimit(0, 1, tmp_path)
    limit.begin_cell()
    small = {"data": {"image/png": "x"}, "metadata": {}}
    assert limit.limit_rich(small) is small
    large = limit.limit_rich({"data": {"text/html": "x" * RICH_BYTES}, "metadata": {}})
    assert list(large["data"]) == ["text/plain"]
    assert "is not shown" in large["data"]["text/plain"]
