"""Requirements of the platform, one function for each, which ``aitne admin setup`` checks before it writes
and ``aitne admin doctor`` on the platform that runs.
"""
