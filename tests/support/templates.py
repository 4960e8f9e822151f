"""The platform's own job templates, read once: no test changes them, and reading takes longer than most tests."""

from __future__ import annotations

from aitne.services.jobs.template_catalog import TemplateCatalog, builtin_folder

TEMPLATES = TemplateCatalog([builtin_folder()])
