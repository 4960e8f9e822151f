"""Train a small neural network on scikit-learn's handwritten digits and print its test accuracy."""

# ruff: noqa: T201 - what it prints is the job's log

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler


def note(**values: float) -> None:
    """Leave measurements where the platform reads them; elsewhere do nothing."""
    folder = os.environ.get("AITNE_METRICS")
    if folder is not None:
        with Path(folder, "metrics.jsonl").open("a") as file:
            file.write(json.dumps(values) + "\n")


def main() -> None:
    """Read the options, train, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--learning-rate", type=float, default=0.005)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(
        digits.data,
        digits.target,
        test_size=0.25,
        stratify=digits.target,
        random_state=options.seed,
    )
    network = MLPClassifier(
        hidden_layer_sizes=(options.hidden,),
        learning_rate_init=options.learning_rate,
        # One pass over the data per step of the loop below, so that the log moves while it trains.
        max_iter=1,
        random_state=options.seed,
    )
    scale = StandardScaler()
    train_x, test_x = scale.fit_transform(train_x), scale.transform(test_x)
    print(f"{len(train_x)} digits to learn from, {len(test_x)} to test on", flush=True)
    for epoch in range(1, options.epochs + 1):
        network.partial_fit(train_x, train_y, classes=range(10))
        accuracy = network.score(test_x, test_y)
        note(step=epoch, loss=network.loss_, accuracy=accuracy)
        if epoch % 10 == 0 or epoch == options.epochs:
            print(f"epoch {epoch:3}: loss {network.loss_:.4f}", flush=True)
    print(f"test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
