"""Flows that are killed: the whole process group, at named points and at random moments."""
