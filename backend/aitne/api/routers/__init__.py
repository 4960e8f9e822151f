"""The routes of ``/api/v1``, one module per noun. Thin: parse, call one service, present."""
