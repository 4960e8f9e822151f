"""Rules of users: permissions, settings of logins, and the process's own account."""
