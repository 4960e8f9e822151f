"""Functions `module`, `ml` and `conda` for the bash programs of a job, as a login shell defines
them.

They are exported to all bash processes of the job, and load the node's own definitions at the first
call. A function is defined only if the node has the software, so that ``command -v module`` gives
the right answer.
"""

from __future__ import annotations

MODULE_FILES = (
    "/etc/profile.d/*lmod*.sh /etc/profile.d/*module*.sh "
    '${LMOD_PKG:+"$LMOD_PKG/init/bash"} ${MODULESHOME:+"$MODULESHOME/init/bash"} '
    "/usr/share/lmod/lmod/init/bash /usr/share/lmod/*/init/bash "
    "/usr/share/modules/init/bash /usr/share/Modules/init/bash "
    "/usr/local/Modules/init/bash /opt/modules/init/bash /opt/lmod/lmod/init/bash"
)
"""Files that may define the shell function ``module``, as words of bash, in the order of
preference. Files in ``/etc/profile.d`` precede the module systems' own files, because they know the
folders of the cluster's modules.
"""
CONDA_FOLDERS = (
    '"$HOME"/{miniconda3,miniforge3,mambaforge,anaconda3} '
    "/opt/{conda,miniconda3,miniforge3,anaconda3} /usr/local/{miniconda3,miniforge3,anaconda3}"
)
"""Folders that may contain a conda that is not on PATH, as words of bash."""

DEFINE = "aitne_functions"
"""Name of the function that defines the others. A shell that has loaded the real definitions calls
it before it starts a program.
"""

# Files are read without the shell's -e and -u, which they need not support. The real functions are
# kept under other names and are not exported: they may call others that a new shell does not have.
FUNCTIONS = r"""
aitne_functions() {
  local aitne_file
  declare -F module >/dev/null || for aitne_file in MODULE_FILES; do
    if [[ -r $aitne_file ]]; then
      module() { aitne_module_file; aitne_module "$@" || return; aitne_conda_too; }
      ml() { aitne_module_file; aitne_ml "$@" || return; aitne_conda_too; }
      export -f module ml
      break
    fi
  done
  declare -F conda >/dev/null || for aitne_file in ${CONDA_EXE:+"${CONDA_EXE%/*/*}"} CONDA_FOLDERS; do
    if [[ -r $aitne_file/etc/profile.d/conda.sh ]]; then
      conda() { aitne_conda_file; conda "$@"; }
      export -f conda
      break
    fi
  done
  aitne_conda_too
}

aitne_conda_too() {
  if [[ $(type -t conda) == file ]]; then
    conda() { aitne_conda_file; conda "$@"; }
    export -f conda
  fi
}

aitne_module_file() {
  local aitne_flags=$- aitne_file aitne_name
  declare -F aitne_module >/dev/null && return
  unset -f module ml
  set +eu
  for aitne_file in MODULE_FILES; do
    if [[ -r $aitne_file ]]; then
      . "$aitne_file" >/dev/null </dev/null
      declare -F module >/dev/null && break
    fi
  done
  for aitne_name in module ml; do
    if declare -F "$aitne_name" >/dev/null; then
      eval "aitne_$(declare -f "$aitne_name")"
    else
      eval "aitne_$aitne_name() { printf '%s: command not found\n' $aitne_name >&2; return 127; }"
    fi
  done
  unset -f module ml
  aitne_functions
  case $aitne_flags in *e*) set -e ;; esac
  case $aitne_flags in *u*) set -u ;; esac
}

aitne_conda_file() {
  local aitne_flags=$- aitne_base aitne_bases=()
  unset -f conda
  set +eu
  [[ -n ${CONDA_EXE:-} ]] && aitne_bases+=("${CONDA_EXE%/*/*}")
  aitne_base=$(type -P conda) && aitne_bases+=("$("$aitne_base" info --base 2>/dev/null </dev/null)")
  aitne_bases+=(CONDA_FOLDERS)
  for aitne_base in "${aitne_bases[@]}"; do
    if [[ -n $aitne_base && -r $aitne_base/etc/profile.d/conda.sh ]]; then
      . "$aitne_base/etc/profile.d/conda.sh" </dev/null
      break
    fi
  done
  case $aitne_flags in *e*) set -e ;; esac
  case $aitne_flags in *u*) set -u ;; esac
}

export -f aitne_functions aitne_conda_too aitne_module_file aitne_conda_file
aitne_functions
""".replace("MODULE_FILES", MODULE_FILES).replace("CONDA_FOLDERS", CONDA_FOLDERS)
"""Lines of bash that define and export the functions. They contain no text of a user."""
