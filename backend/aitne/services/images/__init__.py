"""Use cases of the catalogue of images."""
