"""Execution of programs: under the platform's own account or, in the broker, under any user's
account.
"""
