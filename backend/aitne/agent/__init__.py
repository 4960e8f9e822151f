"""Agent, which runs beside the job's program inside an allocation.

Standard library only.
"""
