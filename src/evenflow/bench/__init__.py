"""Benchmarks: one module each, run by `evenflow bench NAME`.

They compare side by side, write to real sinks and check that the answers are equal.
"""
