"""Use cases of jobs: from the request to the submission, and all operations on jobs."""
