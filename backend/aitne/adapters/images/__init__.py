"""Creation of images: from Debian's and PyPI's packages, or from files made elsewhere."""
