"""Scripts that sbatch refuses, or that no parser should read for long."""

from __future__ import annotations

import re
import time

import pytest

from aitne.core.jobs.sbatch_conversion_state import MOST_NOTES
from aitne.core.jobs.sbatch_import import MAX_CHARS, import_sbatch

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
        (
            "--gres=gpu:2 --gpus-per-node=a100:2",
            "line 2: --gpus-per-node requests GPUs beside others, with and without a type",
        ),
        (
            "--gres=gpu:a100:2,gpu:1",
            "line 2: --gres requests GPUs beside others, with and without a type",
        ),
        (
            "-N2 --gpus=4 --gpus-per-node=1",
            "line 2: --gpus requests 2 GPUs on each node and another option 1, so Slurm refuses it",
        ),
        ("-N1 -n2 --gpus-per-task=1 --gres=gpu:3", "line 2: --gpus-per-task requests 2 GPUs on"),
        ("-N1 -n2 --gpus-per-task=1 --gpus=4", "line 2: --gpus requests 4 GPUs on each node and"),
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


def test_a_file_that_is_no_script_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        import_sbatch("\x7fELF\0")
    with pytest.raises(ValueError, match="KiB"):
        import_sbatch("#" * (MAX_CHARS + 1))


@pytest.mark.parametrize("word", ["hetjob", "packjob", "hetjob # second"])
def test_heterogeneous_job_is_refused_with_its_line(word: str) -> None:
    script = f"#!/bin/bash\n#SBATCH -N1\n#SBATCH {word}\n#SBATCH -N2\nsrun a : b\n"
    with pytest.raises(ValueError, match="line 3: a heterogeneous job"):
        import_sbatch(script)
    late = f"#!/bin/bash\nrun\n#SBATCH {word}\n"
    assert import_sbatch(late).file["commands"] == [late]


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/bash\nmodule load " + " " * 100_000 + "!\n",
        "#!/bin/bash\nrun\n" + "\n" * 100_000 + "more\n",
        "#!/bin/bash\n#SBATCH " + "x" * 200_000,
        "#!/bin/bash\nrun <<E\n" + "$x\n" * 60_000,
        "#!/bin/bash\nrun " + "<<'" * 60_000 + "\n",
        "#!/bin/bash\nrun " + "a( " * 60_000 + "{" * 60_000 + "\n",
        "#!/bin/bash\n" + ("#SBATCH -" + "H" * 4_000 + "\n") * 60,
        "#!/bin/bash\n" + ("#SBATCH " + "-t 1 " * 800 + "\n") * 60,
        "#!/bin/bash\n" + ("#SBATCH --gres=" + "(" * 4_000 + "\n") * 60,
        "#!/bin/bash\n#SBATCH --gres=" + "(" * 200_000,
        "#!/bin/bash\n" + "#SBATCH --array=0-999\n" * 10_000,
    ],
)
def test_no_script_keeps_the_platform_busy(script: str) -> None:
    began = time.process_time()
    notes = import_sbatch(script).notes
    # Each of these scripts once took from a minute to days of processor time.
    assert time.process_time() - began < 5
    assert len(notes) <= MOST_NOTES
