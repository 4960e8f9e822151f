"""Floor 3: the command line.

``commands`` says with Typer what can be typed and writes the help; ``verbs`` does what the verbs
typed all day say, and knows no Typer. `aitne ps` is faster than Typer loads: ``quick`` reads a
plain command line of such a verb itself.
"""
