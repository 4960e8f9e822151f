"""Making images: from Debian's and PyPI's packages, or from files that others made."""
