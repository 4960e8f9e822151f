"""Rules of sessions and terminals: names, host names and the attach protocol."""
