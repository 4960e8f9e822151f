"""The training runtime from the platform: its former name, and its commands."""

from __future__ import annotations

import importlib

import pytest

from aitne.cli.command_table import COMMANDS
from aitne.cli.main import main
from aitne_train.cli import VERBS


def test_former_name_fails_with_the_new_one() -> None:
    with pytest.raises(
        ModuleNotFoundError, match=r"pip install 'aitne-train\[torch\]', then `import aitne_train"
    ):
        importlib.import_module("aitne.distrib")
    with pytest.raises(ModuleNotFoundError, match="aitne_train"):
        importlib.import_module("aitne.distrib.elastic")


def test_verb_of_the_runtime_is_forwarded(capfd: pytest.CaptureFixture[str]) -> None:
    assert set(VERBS) - set(COMMANDS) == {"linkcheck", "kernel"}
    with pytest.raises(SystemExit) as ended:
        main(["kernel", "--help"])
    assert ended.value.code == 0
    assert "usage: aitne-train kernel" in capfd.readouterr().out


def test_verb_of_the_platform_stays_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    main(["profile", "--help"])
    shown = capfd.readouterr().out
    assert "aitne-train" not in shown
    assert "aitne profile" in shown
