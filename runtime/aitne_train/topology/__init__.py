"""Topology of a cluster: which switches connect its nodes, what each node consists of, and in which
order ranks run on the nodes.

Standard library only, for any Python from 3.9 on: the launcher of ranks computes the order inside
an allocation, where nothing else is installed.
"""
