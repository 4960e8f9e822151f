"""Floor 1: the agent, which runs beside the job's program inside an allocation.

Standard library only.
"""
