"""Transports, which exchange tensors between ranks. Each public module but ``base`` contains one;
all pass the same conformance tests.
"""
