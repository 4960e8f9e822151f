"""Scripts that sbatch refuses are refused at the import."""

from __future__ import annotations

import re

import pytest

from aitne.core.jobs.sbatch_import import import_sbatch

SCRIPT = "#!/bin/bash\n{}\npython train.py\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--frobnicate=3", "line 2: --frobnicate is not an option of sbatch"),
        ("--mem-per", "line 2: --mem-per is ambiguous for sbatch: mem-per-cpu, mem-per-gpu"),
        ("-Z", "line 2: -Z is not an option"),
        ("--mem", "line 2: --mem has no value"),
        ("-p", "line 2: -p has no value"),
        ("--contiguous=yes", "line 2: --contiguous takes no value"),
        ("-N 2 word", "line 2: #SBATCH 'word' is not an option"),
        ("-J 'two", "line 2: #SBATCH has no second '"),
        ("-N many", "line 2: --nodes 'many' is not a number of nodes"),
        ("-n 0", "line 2: --ntasks '0' is not a number"),
        ("-c two", "line 2: --cpus-per-task 'two' is not a number"),
        ("--mem=1.5G", "line 2: --mem '1.5G' is not an amount of memory"),
        ("--mem=1G --mem-per-cpu=1G", "line 2: --mem-per-cpu and --mem exclude each other"),
        ("-t 4h", "line 2: --time '4h' is not a time"),
        ("-t 4h -t 10", "line 2: --time '4h' is not a time"),
        ("--time-min=x", "line 2: --time-min 'x' is not a time"),
        ("-a 5-1", "line 2: --array '5-1' is not an array"),
        ("--signal=@", "line 2: --signal '@' is not a signal"),
        ("--nice=much", "line 2: --nice 'much' is not a number"),
        ("--switches=many", "line 2: --switches 'many' is not a number"),
        ("--switches=1@x", "line 2: --switches 'x' is not a time"),
        ("-qos=debug", "line 2: --qos is not a name that Slurm can have"),
        ("-p a;b", "line 2: --partition is not a name that Slurm can have"),
    ],
)
def test_directive_that_sbatch_refuses_is_refused_with_its_line(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        import_sbatch(SCRIPT.format(f"#SBATCH {line}"))


def test_text_that_is_no_batch_script_for_sbatch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^line 2: .*line ends of Windows"):
        import_sbatch("#!/bin/bash\n#SBATCH -N 2\r\necho\r\n")
    with pytest.raises(ValueError, match=r"^line 1: .*does not begin with #!"):
        import_sbatch("#SBATCH -N 2\necho\n")
