"""Controller process: submits jobs and follows the scheduler."""
