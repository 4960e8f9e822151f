"""Transports, which exchange tensors between ranks: one file for each, one conformance suite for
all."""
