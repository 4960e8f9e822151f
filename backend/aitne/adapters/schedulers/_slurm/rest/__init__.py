"""Access to slurmrestd: the client, the API versions, and the conversions between them."""
