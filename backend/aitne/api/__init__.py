"""HTTP API. Thin: parse, authorize, call one service, present."""
