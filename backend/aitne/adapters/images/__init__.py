"""Creation of container images: from Debian and PyPI packages, or from image files that were built
elsewhere.
"""
