#!/bin/bash
# Aitne job 0b4e1b5a-7c1d-4f0e-9a53-2f6f0a7d1c11, attempt 1
#
#   nodes       1, on it 1 CPU, 1 GiB of memory
#   time limit  1h
#   project     vision
#   tasks       0-9%2
#
# What it runs - commands, variables, its name - lies in agent.json in the job's folder;
# nothing that a user wrote is part of this script.

export AITNE_JOB_ID=0b4e1b5a-7c1d-4f0e-9a53-2f6f0a7d1c11
export AITNE_ATTEMPT=1
export AITNE_PROJECT=vision
export AITNE_JOB_DIR=/srv/aitne/jobs/0b4e1b5a-7c1d-4f0e-9a53-2f6f0a7d1c11/1
export AITNE_NODES=1
export AITNE_NODE_RANK="${SLURM_NODEID:-0}"
export AITNE_GPUS_PER_NODE=0

# Where the ranks of a distributed program meet: the first node of the allocation
# ("gpu[03-05,9],n1" begins with gpu03). The agent adds MASTER_PORT, which it holds.
hosts="${SLURM_JOB_NODELIST:-localhost}"
first=
while [[ $hosts =~ ^([^][,]*)\[([0-9]+)[^]]*\](.*)$ ]]; do
  first+="${BASH_REMATCH[1]}${BASH_REMATCH[2]}"
  hosts="${BASH_REMATCH[3]}"
done
export MASTER_ADDR="${MASTER_ADDR:-$first${hosts%%,*}}"
unset hosts first

# What a login shell defines for bash programs, where the node has it: module, ml and conda.
aitne_functions() {
  local aitne_file
  declare -F module >/dev/null || for aitne_file in /etc/profile.d/*lmod*.sh /etc/profile.d/*module*.sh ${LMOD_PKG:+"$LMOD_PKG/init/bash"} ${MODULESHOME:+"$MODULESHOME/init/bash"} /usr/share/lmod/lmod/init/bash /usr/share/lmod/*/init/bash /usr/share/modules/init/bash /usr/share/Modules/init/bash /usr/local/Modules/init/bash /opt/modules/init/bash /opt/lmod/lmod/init/bash; do
    if [[ -r $aitne_file ]]; then
      module() { aitne_module_file; aitne_module "$@" || return; aitne_conda_too; }
      ml() { aitne_module_file; aitne_ml "$@" || return; aitne_conda_too; }
      export -f module ml
      break
    fi
  done
  declare -F conda >/dev/null || for aitne_file in ${CONDA_EXE:+"${CONDA_EXE%/*/*}"} "$HOME"/{miniconda3,miniforge3,mambaforge,anaconda3} /opt/{conda,miniconda3,miniforge3,anaconda3} /usr/local/{miniconda3,miniforge3,anaconda3}; do
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
  for aitne_file in /etc/profile.d/*lmod*.sh /etc/profile.d/*module*.sh ${LMOD_PKG:+"$LMOD_PKG/init/bash"} ${MODULESHOME:+"$MODULESHOME/init/bash"} /usr/share/lmod/lmod/init/bash /usr/share/lmod/*/init/bash /usr/share/modules/init/bash /usr/share/Modules/init/bash /usr/local/Modules/init/bash /opt/modules/init/bash /opt/lmod/lmod/init/bash; do
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
  aitne_bases+=("$HOME"/{miniconda3,miniforge3,mambaforge,anaconda3} /opt/{conda,miniconda3,miniforge3,anaconda3} /usr/local/{miniconda3,miniforge3,anaconda3})
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
exec /opt/aitne/bin/python -I -m aitne.agent "$AITNE_JOB_DIR"
