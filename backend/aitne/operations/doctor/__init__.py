"""``aitne admin doctor``: checks of the platform, its host and its cluster, with causes and remedies.

``checks`` has a module for each subject. A check is one function with the decorator ``check``. The
checks that the API process also runs are in ``services.monitoring.health_checks``.
"""
