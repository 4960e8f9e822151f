"""The ``environment`` part of a job: modules, conda, venv and lines of bash before the program.

Nothing that a user wrote becomes part of a script: ``PREAMBLE`` is one constant, and the values are
its positional parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from aitne.core.jobs.agent_protocol import EXIT_ENVIRONMENT
from aitne.core.jobs.module_shell_functions import CONDA_FOLDERS, DEFINE, MODULE_FILES
from aitne.core.models.common_job_fields import EnvironmentOptions

NAME = "aitne-environment"
"""Name in the argument vector that ``wrap_in_environment`` returns, by which the agent recognizes a program that
is started in this way.
"""

# The parameters: how many modules, the modules, conda, venv, how many lines, the lines, the program.
# They are kept in arrays, for a line may well say `set --`. Nothing here may read the standard
# input: it is the program's.
PREAMBLE = (
    r"""
aitne_node=${SLURMD_NODENAME:-${HOSTNAME:-this node}}
aitne_modules=("${@:2:$1}"); shift "$(($1 + 1))"
aitne_conda=$1 aitne_venv=$2; shift 2
aitne_lines=("${@:2:$1}"); shift "$(($1 + 1))"
aitne_program=("$@")

aitne_fail() {
  printf 'aitne: %s\n' "${1//$'\n'/ }" >&2
  exit EXIT_CODE
}

aitne_home() {
  case $1 in
    "~") aitne_path=$HOME ;;
    "~/"*) aitne_path=$HOME/${1#"~/"} ;;
    *) aitne_path=$1 ;;
  esac
}

aitne_find_modules() {
  local file looked=()
  type module >/dev/null 2>&1 && return
  for file in MODULE_FILES; do
    [[ -r $file ]] || { looked+=("$file"); continue; }
    . "$file" >/dev/null </dev/null
    type module >/dev/null 2>&1 && return
    looked+=("$file")
  done
  if [[ -n ${LMOD_CMD:-} && -x $LMOD_CMD ]]; then
    module() { eval "$("$LMOD_CMD" bash "$@")"; }
    return
  fi
  aitne_fail "the module ${aitne_modules[0]} cannot be loaded: there is no module command on node \
$aitne_node. Searched: ${looked[*]}. Ask the site for Lmod or Environment Modules, or leave the \
modules out."
}

# Lmod, and Environment Modules from 4 on, say by their exit status whether a module was loaded.
aitne_reports() {
  [[ -n ${LMOD_VERSION:-} ]] || module --version 2>&1 </dev/null \
    | grep -Eq '^Modules (Release ([4-9]|[1-9][0-9])|based on Lua)'
}

aitne_no_module() {
  local name=$1 base=${1%%/*} found
  found=$(module -t avail "$base" 2>&1 </dev/null | grep -i -F -- "$base" | grep -v ':$' \
    | sed -E 's/([[:space:]]*(<[^<>]*>|\([^()]*\)))+[[:space:]]*$//' | grep -v ' ' | head -n 20 | tr '\n' ' ')
  if [[ -n $found ]]; then
    aitne_fail "the module $name cannot be loaded on node $aitne_node. Similar ones there: ${found% }."
  fi
  aitne_fail "the module $name cannot be loaded on node $aitne_node, and no module there has a \
similar name. Searched: MODULEPATH=${MODULEPATH:-}."
}

aitne_find_conda() {
  local base looked=()
  type conda 2>/dev/null | grep -q function && return
  [[ -n ${CONDA_EXE:-} ]] && looked+=("${CONDA_EXE%/*/*}")
  base=$(type -P conda) && looked+=("$("$base" info --base 2>/dev/null </dev/null)")
  looked+=(CONDA_FOLDERS)
  for base in "${looked[@]}"; do
    if [[ -n $base && -r $base/etc/profile.d/conda.sh ]]; then
      . "$base/etc/profile.d/conda.sh" </dev/null
      type conda >/dev/null 2>&1 && return
    fi
  done
  aitne_fail "the conda environment $aitne_conda cannot be used: there is no conda on node \
$aitne_node. Searched for etc/profile.d/conda.sh in: ${looked[*]}. Load the module that has it, or \
set CONDA_EXE in env."
}

if ((${#aitne_modules[@]})); then
  aitne_find_modules
  for aitne_name in "${aitne_modules[@]}"; do
    aitne_before=${LOADEDMODULES:-}
    module load "$aitne_name" </dev/null || aitne_no_module "$aitne_name"
    # Releases of Environment Modules before 4 only print what went wrong. A module may be loaded
    # already, under another name of its version.
    if [[ ${LOADEDMODULES:-} == "$aitne_before" ]] && ! aitne_reports; then
      case ":$aitne_before:" in
        *":$aitne_name:"* | *":$aitne_name/"*) ;;
        *) aitne_no_module "$aitne_name" ;;
      esac
    fi
  done
fi

if [[ -n $aitne_conda ]]; then
  aitne_home "$aitne_conda"; aitne_conda=$aitne_path
  [[ $aitne_conda != -* ]] || aitne_fail "$aitne_conda is no name or path of a conda environment."
  aitne_find_conda
  conda activate "$aitne_conda" </dev/null || aitne_fail "the conda environment $aitne_conda cannot \
be activated on node $aitne_node. It has: $(conda env list 2>/dev/null </dev/null \
| grep -v '^#' | grep . | awk '{print $1}' | head -n 20 | tr '\n' ' ')"
fi

if [[ -n $aitne_venv ]]; then
  aitne_home "$aitne_venv"; aitne_venv=$aitne_path
  [[ $aitne_venv == /* ]] || aitne_fail "the virtual environment $aitne_venv is no absolute path and \
none below home (~/...)."
  [[ -x $aitne_venv/bin/python ]] || aitne_fail "$aitne_venv is no virtual environment that can be \
used on node $aitne_node: there is no program $aitne_venv/bin/python."
  export VIRTUAL_ENV=$aitne_venv PATH=$aitne_venv/bin:$PATH
  unset PYTHONHOME
fi

for aitne_index in "${!aitne_lines[@]}"; do
  eval "${aitne_lines[aitne_index]}" </dev/null
  aitne_status=$?
  ((aitne_status == 0)) || aitne_fail "line $((aitne_index + 1)) of the environment's setup failed \
with exit code $aitne_status on node $aitne_node: ${aitne_lines[aitne_index]}"
done

# The program's shell gets functions of its own: those that were read here may need others.
unset -f conda
declare -F DEFINE >/dev/null && DEFINE
exec "${aitne_program[@]}"
""".replace("EXIT_CODE", str(EXIT_ENVIRONMENT))
    .replace("MODULE_FILES", MODULE_FILES)
    .replace("CONDA_FOLDERS", CONDA_FOLDERS)
    .replace("DEFINE", DEFINE)
)


def wrap_in_environment(environment: EnvironmentOptions, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the argument vector that loads ``environment`` on the node and then executes ``argv``
    in place of itself.

    It requires bash on the node's PATH. If something cannot be loaded, it exits with
    ``EXIT_ENVIRONMENT`` and writes to standard error what is missing and what is available instead.
    """
    if environment == EnvironmentOptions():
        return tuple(argv)
    return (
        *("bash", "--norc", "-c", PREAMBLE, NAME),
        *(str(len(environment.modules)), *environment.modules),
        *(environment.conda or "", environment.venv or ""),
        *(str(len(environment.setup)), *environment.setup),
        *argv,
    )
