"""A program for each performance figure: ``python -m benchmarks [names] [--quick]`` prints them.

Each figure is measured in one run against its own yardstick, the two in turn, so that a slow machine
slows both. What a benchmark starts it ends, and everything listens on loopback.
"""
