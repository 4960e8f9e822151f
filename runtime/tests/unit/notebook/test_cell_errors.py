"""Display of a cell that failed on ranks."""

from __future__ import annotations

from aitne_train.notebook.cell import CellFailure, RankCellError

NODES = {0: "n1", 1: "n2"}


def shown(name: str, text: str) -> list[str]:
    failures = [
        CellFailure(rank, name, text, ["Traceback"], f"2026-01-0{rank + 1}") for rank in (1, 0)
    ]
    return RankCellError(failures, NODES)._render_traceback_()


def test_a_missing_module_on_ranks_names_the_way_to_another_python() -> None:
    lines = shown("ModuleNotFoundError", "No module named 'torch'")
    assert lines[:3] == ["Rank 1 on n2 failed first:", "Traceback", "[0] the same error"]
    assert "%ranks start N --python" in lines[-1]
    assert "--venv" in lines[-1]
    assert len(shown("ValueError", "no")) == 3, "other errors have no such line"
