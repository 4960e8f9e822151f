"""Floor 3: the controller process."""
