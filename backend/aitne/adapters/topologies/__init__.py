"""Sources of topologies, one module for each format or program."""
