"""Former name of the training runtime, which is a distribution of its own."""

raise ModuleNotFoundError(
    "aitne.distrib is the package aitne_train of the distribution aitne-train now: "
    "pip install 'aitne-train[torch]', then `import aitne_train as hvd`",
    name=__name__,
)
