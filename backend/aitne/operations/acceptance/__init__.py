"""``aitne admin accept``: acceptance test of a site through the public API, as one of its users."""
