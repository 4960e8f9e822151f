"""Floor 3: the HTTP API. Thin: parse, authorize, call one service, present."""
