"""Rules of jobs: states, stages, scripts, job files and the import of batch scripts."""
