"""Floor 3: the HTTP face. Thin: parse, authorize, call one service, present."""
