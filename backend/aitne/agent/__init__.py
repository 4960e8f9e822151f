"""Agent: program that runs inside each allocation, starts the job's programs and reports to the
platform.

It uses the standard library only.
"""
