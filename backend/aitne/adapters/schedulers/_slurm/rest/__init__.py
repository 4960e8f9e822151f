"""slurmrestd: the client, the versions of its interface, and the steps between them."""
