"""The table of sbatch's options is complete, and none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.core.jobs import sbatch_option_names, sbatch_options
from aitne.core.jobs.sbatch_import import import_sbatch

SCRIPT = "#!/bin/bash\n{}\npython train.py\n"
HERE = "/where/sbatch/was/called"


def _sbatch() -> dict[str, str]:
    """Return the options of sbatch, each with the kind of its argument."""
    lines = (Path(__file__).parent / "sbatch_options.txt").read_text().splitlines()
    words = (line.split() for line in lines if not line.startswith("#"))
    return {name: argument for name, argument, *_ in words}


def test_every_option_of_sbatch_has_one_place() -> None:
    assert _sbatch().keys() == sbatch_options.KNOWN
    places = (
        sbatch_option_names.AMOUNTS,
        sbatch_option_names.LOGS,
        sbatch_option_names.SITE,
        sbatch_option_names.LEFT_OUT.keys(),
        sbatch_option_names.IGNORED.keys(),
        sbatch_option_names.REFUSED.keys(),
        sbatch_option_names.ALIASES.keys(),
        sbatch_options._TAKE.keys(),
    )
    assert sum(map(len, places)) == len(sbatch_options.KNOWN)


def test_options_have_values_as_in_sbatch() -> None:
    arguments = _sbatch()
    assert {name for name, argument in arguments.items() if argument == "none"} == (
        sbatch_option_names.NO_VALUE
    )
    assert {name for name, argument in arguments.items() if argument == "optional"} == (
        sbatch_option_names.OPTIONAL_VALUE
    )


@pytest.mark.parametrize("name", sorted(_sbatch()))
def test_no_option_of_sbatch_is_lost_without_word(name: str) -> None:
    value = "" if name in sbatch_option_names.NO_VALUE else "=1"
    script = SCRIPT.format(f"#SBATCH --{name}{value}")
    if name in sbatch_option_names.REFUSED:
        with pytest.raises(ValueError, match=f"line 2: --{name} "):
            import_sbatch(script, HERE)
    else:
        found = import_sbatch(script, HERE, permitted=())
        kept = (
            {*found.file} - {"commands"} - ({"workdir"} if found.file["workdir"] == HERE else set())
        )
        assert kept or any(note.line == 2 for note in found.notes)
