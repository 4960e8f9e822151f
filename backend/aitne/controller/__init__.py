"""Controller process: submits the platform's jobs to the scheduler and records their changes."""
