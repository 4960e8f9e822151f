# Not conda: the one function of it that the script needs.
conda() {
    export CONDA_DEFAULT_ENV=$2
}
