"""Floor 1: the program beside the user's program inside an allocation. Standard library only."""
