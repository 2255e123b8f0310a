"""The shell around Spark: sessions, compiling units, sources, sinks, running.

Only here is pyspark imported, and importing this package alone imports nothing of it.
"""
