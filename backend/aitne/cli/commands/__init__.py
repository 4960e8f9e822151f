"""What can be typed: one module per group of verbs, imported when one of them is."""
