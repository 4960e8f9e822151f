"""Use cases of the catalogue of datasets."""
