"""Surge: a source goes to several times the capacity and back; who gives way, and is it the least?

Six windowed queries over one source, with delay operators of 20, 20, 40, 40, 80 and 80 microseconds
per tuple and weights of 4, 1, 4, 1, 4 and 1. A saturated run tells the capacity and the true costs;
then each method runs the same surge, in a process of its own:

- `none`: no gates, no limits;
- `limits`: Spark's own limit, a batch reads at most what the capacity is per interval;
- `uniform`: the control loop, with one fraction for all queries;
- `planned`: the control loop as it is.

Tuples arrive by the clock: half of the capacity, then the surge, then half of it again. What is
reported is defined in `figures`, beside the arithmetic.
"""

from evenflow.bench.surge.benchmark import OPTIONS, run, verdict

__all__ = ["OPTIONS", "run", "verdict"]
