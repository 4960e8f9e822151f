#!/bin/bash
srun "$@"
