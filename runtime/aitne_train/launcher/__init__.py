"""Launcher that starts the ranks of a distributed program with their environment.

Standard library only.

It runs where torch may not be installed: beside the agent, in any image, under any Python from 3.9
on.
"""
