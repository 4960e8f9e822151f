"""Identity sources, which verify user names and passwords; one module for each."""
