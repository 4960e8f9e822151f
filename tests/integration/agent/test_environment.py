"""Modules, conda, venv and setup lines, loaded by the preamble in a real job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aitne.core.jobs.agent_protocol import EXIT_ENVIRONMENT, ProgramPhase
from aitne.core.jobs.environment_command import wrap_in_environment
from aitne.core.jobs.module_shell_functions import FUNCTIONS
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.common_job_fields import EnvironmentOptions
from aitne.core.ports.job_files import ProgramOutcome
from tests.support import realtime
from tests.support.agents import Job, Platform
from tests.support.requirements import lacking

pytestmark = realtime.PROCESSES


def run(job: Job, environment: dict[str, Any], command: str, **facts: Any) -> int:
    argv = wrap_in_environment(
        EnvironmentOptions.model_validate(environment), ("bash", "-c", command)
    )
    return job.run(commands=[argv], **facts)


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, str]:
    """A site's modules, for the real Lmod."""
    if not Path("/usr/share/lmod").is_dir():
        lacking("lmod", "Debian's package lmod is not installed")
    for name, text in {
        "greet/1.0": 'setenv("GREETING", "hello")',
        "greet/2.0": 'setenv("GREETING", "good day")',
        "tools/3": f'prepend_path("PATH", "{tmp_path}/tools")',
    }.items():
        file = tmp_path / "modulefiles" / f"{name}.lua"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    tool = tmp_path / "tools" / "greet"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "$GREETING from a tool"\n')
    tool.chmod(0o755)
    return {"MODULEPATH": str(tmp_path / "modulefiles")}


def test_modules_are_loaded_in_their_order(job: Job, modules: dict[str, str]) -> None:
    wanted = {"modules": ["greet/1.0", "tools"]}
    assert run(job, wanted, "greet; exit 4", variables=modules) == 4
    assert job.log == "hello from a tool\n"


def with_functions(command: str, shell: str = "set -eu") -> list[str]:
    """Return a program that defines a batch script's functions and runs a command in another bash."""
    return ["bash", "-c", f'{FUNCTIONS}\nexec bash -c "$1"', "bash", f"{shell}\n{command}"]


def test_bash_of_a_job_has_modules_wherever_they_are_loaded(
    job: Job, modules: dict[str, str]
) -> None:
    command = "mkdir -p x; module load greet/1.0 tools; greet; ml greet/2.0; greet\n"
    command += "bash -c 'ml -greet; echo ${GREETING-none}'; module load no/such"
    assert job.run(commands=[with_functions(command)], variables=modules) == 1
    assert job.log.startswith("hello from a tool\n")
    assert "good day from a tool\nnone\n" in job.log
    assert "no/such" in job.log


def test_modules_of_the_environment_leave_the_function(job: Job, modules: dict[str, str]) -> None:
    argv = wrap_in_environment(
        EnvironmentOptions(modules=("greet/1.0",)),
        ("bash", "-c", "module load tools; greet; bash -c 'module unload greet; greet'"),
    )
    program = ["bash", "-c", f'{FUNCTIONS}\nexec "$@"', "bash", *argv]
    assert job.run(commands=[program], variables=modules) == 0
    assert job.log == "hello from a tool\n from a tool\n"


def test_bash_of_a_job_activates_conda(job: Job, conda: dict[str, str]) -> None:
    command = "echo begun; conda activate torch; echo in $CONDA_DEFAULT_ENV"
    assert job.run(commands=[with_functions(command)], variables=conda) == 0
    assert job.log == "begun\nin torch\n"


def test_conda_of_a_module_is_activated(
    job: Job, modules: dict[str, str], conda: dict[str, str], tmp_path: Path
) -> None:
    base = tmp_path / "site" / "conda"
    base.parent.mkdir()
    (tmp_path / "miniforge3").rename(base)
    defined = base / "etc" / "profile.d" / "conda.sh"
    defined.write_text(defined.read_text().replace(f"{tmp_path}/miniforge3", str(base)))
    (base / "bin").mkdir()
    (base / "bin" / "conda").write_text(f"#!/bin/sh\necho {base}\n")
    (base / "bin" / "conda").chmod(0o755)
    (tmp_path / "modulefiles" / "conda.lua").write_text(f'prepend_path("PATH", "{base}/bin")')
    command = "command -v conda; module load conda; conda activate torch; echo $CONDA_DEFAULT_ENV"
    argv = with_functions(command, "set -u")
    code = job.run(commands=[argv], variables=modules | {"HOME": str(tmp_path)})
    assert (code, job.log) == (0, "torch\n")


def test_node_without_modules_and_conda_has_no_functions() -> None:
    hide = "for f in /etc/profile.d /usr/share/lmod /usr/share/modules; do "
    hide += 'if [ -d $f ]; then mount -t tmpfs none $f || exit 99; fi; done; exec "$@"'
    argv = with_functions("type module ml conda", "set -u")
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hide, "sh", *argv],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_submit_dir_is_the_working_directory(job: Job) -> None:
    home = job.folder / "home" / "work"
    home.mkdir(parents=True)
    variables = {"HOME": str(home.parent)}
    around = {"SLURM_SUBMIT_DIR": str(job.folder)}
    around["SLURM_OPEN_MODE"] = "a"  # of the log, and not of the files of srun in the job
    command = "cd / && cd $SLURM_SUBMIT_DIR && echo ${SLURM_OPEN_MODE-$PWD}"
    assert job.run(command, workdir="~/work", variables=variables, around=around) == 0
    assert job.log == f"{home}\n"
    # Of an imported script with --chdir.
    (job.folder / "fence").unlink()
    variables["SLURM_SUBMIT_DIR"] = "/elsewhere"
    assert job.run("echo $SLURM_SUBMIT_DIR $PWD", workdir="~/work", variables=variables) == 0
    assert job.log == f"{home}\n/elsewhere {home}\n"


def test_a_module_that_is_not_there_is_named_with_its_like(
    job: Job, modules: dict[str, str]
) -> None:
    assert run(job, {"modules": ["greet/9.9"]}, "echo never", variables=modules) == EXIT_ENVIRONMENT
    assert "the module greet/9.9 cannot be loaded on node node01" in job.log
    assert "Similar ones there: greet/1.0 greet/2.0.\n" in job.log
    assert "never" not in job.log


def test_a_module_that_nothing_is_like(job: Job, modules: dict[str, str]) -> None:
    assert run(job, {"modules": ["cuda/12.6"]}, "echo never", variables=modules) == EXIT_ENVIRONMENT
    assert "no module there has a similar name" in job.log
    assert modules["MODULEPATH"] in job.log


def test_environment_failure_becomes_message_of_job(job: Job, platform: Platform) -> None:
    wanted = {"venv": "/no/such/venv"}
    assert run(job, wanted, "echo never", url=platform.url) == EXIT_ENVIRONMENT
    left = ProgramOutcome.model_validate_json((job.folder / "outcome").read_bytes())
    assert left.reason is TerminationReason.START_FAILED
    assert job.log == f"aitne: {left.message}.\n"
    assert platform.report(ProgramPhase.FINISHED).message == left.message


def test_a_program_that_ends_with_the_same_code_says_nothing_of_its_environment(job: Job) -> None:
    code = run(job, {"setup": ["true"]}, f"echo loaded; exit {EXIT_ENVIRONMENT}")
    left = ProgramOutcome.model_validate_json((job.folder / "outcome").read_bytes())
    assert (code, left.reason) == (EXIT_ENVIRONMENT, None)


def test_a_node_without_modules_says_where_it_looked() -> None:
    """In a mount namespace of its own, where nothing of Lmod is."""
    hide = "for f in /etc/profile.d /usr/share/lmod /usr/share/modules; do "
    hide += 'if [ -d $f ]; then mount -t tmpfs none $f || exit 99; fi; done; exec "$@"'
    argv = wrap_in_environment(EnvironmentOptions(modules=("cuda",)), ("echo", "never"))
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hide, "sh", *argv],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "SLURMD_NODENAME": "n7"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (EXIT_ENVIRONMENT, "")
    assert "there is no module command on node n7" in done.stderr
    assert "/usr/share/modules/init/bash" in done.stderr


def test_a_virtual_environment_comes_first_on_the_path(job: Job) -> None:
    home = job.folder / "home"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(home / "envs" / "mine")], check=True
    )
    found = "python -c 'import sys; print(sys.prefix)'; echo $VIRTUAL_ENV"
    assert run(job, {"venv": "~/envs/mine"}, found, variables={"HOME": str(home)}) == 0
    assert job.log == f"{home}/envs/mine\n" * 2


@pytest.mark.parametrize(
    ("venv", "told"),
    [
        ("/no/such/venv", "there is no program /no/such/venv/bin/python"),
        ("envs/mine", "is no absolute path"),
    ],
)
def test_a_virtual_environment_that_is_none(job: Job, venv: str, told: str) -> None:
    assert run(job, {"venv": venv}, "echo never") == EXIT_ENVIRONMENT
    assert told in job.log


@pytest.fixture
def conda(tmp_path: Path) -> dict[str, str]:
    """A stand-in for conda that defines the shell function of conda.sh."""
    base = tmp_path / "miniforge3"
    (base / "etc" / "profile.d").mkdir(parents=True)
    (base / "envs" / "torch").mkdir(parents=True)
    (base / "etc" / "profile.d" / "conda.sh").write_text(
        f"""conda() {{
  case $1 in
    env) echo '# conda environments:'; echo 'base   {base}'; echo 'torch  {base}/envs/torch' ;;
    activate) [ -d "{base}/envs/$2" ] || return 1; export CONDA_DEFAULT_ENV=$2 ;;
  esac
}}
"""
    )
    return {"HOME": str(tmp_path)}


def test_a_conda_environment_is_activated(job: Job, conda: dict[str, str]) -> None:
    assert run(job, {"conda": "torch"}, "echo in $CONDA_DEFAULT_ENV", variables=conda) == 0
    assert job.log == "in torch\n"


def test_a_conda_environment_that_is_not_there(job: Job, conda: dict[str, str]) -> None:
    assert run(job, {"conda": "jax"}, "echo never", variables=conda) == EXIT_ENVIRONMENT
    assert "the conda environment jax cannot be activated on node node01" in job.log
    assert "It has: base torch" in job.log


def test_a_node_without_conda_says_where_it_looked(job: Job) -> None:
    home = str(job.folder)
    around = {"HOME": home, "PATH": "/usr/bin:/bin"}
    assert run(job, {"conda": "torch"}, "echo never", around=around) == EXIT_ENVIRONMENT
    assert "there is no conda on node node01" in job.log
    assert f"{home}/miniconda3" in job.log


def test_setup_lines_run_in_the_programs_shell(job: Job) -> None:
    lines = ["export A='x y'", "cd /", "set -- ''; cat"]
    argv = wrap_in_environment(
        EnvironmentOptions(setup=tuple(lines)), ("sh", "-c", 'echo "$A" $PWD "$0"', "$(id)")
    )
    assert job.run(commands=[argv]) == 0
    assert job.log == "x y / $(id)\n"


def test_the_first_setup_line_that_fails_ends_it(job: Job) -> None:
    assert run(job, {"setup": ["true", "(exit 7)", "echo no"]}, "echo never") == EXIT_ENVIRONMENT
    assert job.log == (
        "aitne: line 2 of the environment's setup failed with exit code 7 on node node01: (exit 7)\n"
    )


def test_the_programs_input_is_left_alone() -> None:
    """A session's launcher is handed its secrets there."""
    argv = wrap_in_environment(EnvironmentOptions(setup=("cat", "read x || true")), ("cat",))
    done = subprocess.run(argv, input=b"line\n", capture_output=True, check=True)
    assert done.stdout == b"line\n"
