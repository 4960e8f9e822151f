"""``aitne-train VERB``, and ``aitne VERB`` in its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aitne_train import cli


def test_each_verb_is_in_the_help_and_describes_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in cli.VERBS)


def test_unknown_verb_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["nothing"]) == 2
    assert "there is no verb 'nothing'; there is: profile, linkcheck" in capsys.readouterr().err


def test_profile_is_printed_without_torch(tmp_path: Path) -> None:
    """Without site there are no other packages."""
    runtime = str(Path(cli.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {runtime!r}); from aitne_train.cli import main; sys.exit(main(sys.argv[1:]))"
    example = Path(__file__).parents[1] / "assets" / "profile.json"

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "-c", code, *argv]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("profile", str(example))
    assert done.returncode == 0, done.stderr
    assert "allreduce" in done.stdout
    done = run("linkcheck")
    assert done.returncode == 1
    assert "is not installed: pip install 'aitne-train[torch]'" in done.stderr
