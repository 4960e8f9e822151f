"""Starts the ranks of a distributed program, and tells each who it is. Standard library only.

It runs where torch may not be installed: beside the agent, in any image, under any Python from 3.9 on.
"""
