"""Folder that ``aitne-run --horovod`` puts first on the import path of Python programs. It contains
only the package ``horovod``.
"""
