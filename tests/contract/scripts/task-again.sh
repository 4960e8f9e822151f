#!/bin/bash
# Aitne job 0b4e1b5a-7c1d-4f0e-9a53-2f6f0a7d1c11, attempt 2
#
#   nodes       1, on it 1 CPU, 1G of memory
#   time limit  1h
#   project     vision
#   tasks       3
#
# What it runs - commands, variables, its name - lies in agent.json in the job's folder;
# nothing that a user wrote is part of this script.

export AITNE_JOB_ID=0b4e1b5a-7c1d-4f0e-9a53-2f6f0a7d1c11
export AITNE_ATTEMPT=2
export AITNE_PROJECT=vision
export AITNE_JOB_DIR=/srv/aitne/jobs/0b4e1b5a-7c1d-4f0e-9a53-2f6f0a7d1c11/2
export AITNE_NODES=1
export AITNE_NODE_RANK="${SLURM_NODEID:-0}"
export AITNE_GPUS_PER_NODE=0

# Where the ranks of a distributed program meet: the first node of the allocation
# ("gpu[03-05,9],n1" begins with gpu03), and a port below the ones the kernel gives out.
hosts="${SLURM_JOB_NODELIST:-localhost}"
first=
while [[ $hosts =~ ^([^][,]*)\[([0-9]+)[^]]*\](.*)$ ]]; do
  first+="${BASH_REMATCH[1]}${BASH_REMATCH[2]}"
  hosts="${BASH_REMATCH[3]}"
done
number="${SLURM_JOB_ID:-0}"
number="${number//[!0-9]/}"
export MASTER_ADDR="${MASTER_ADDR:-$first${hosts%%,*}}"
export MASTER_PORT=$((20000 + 10#0${number:0:9} % 12000))
unset hosts first number

exec /opt/aitne/bin/python -I -m aitne.agent "$AITNE_JOB_DIR"
