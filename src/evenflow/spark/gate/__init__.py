"""Gates on Spark: which tuples a batch drops, the same ones if it is done again."""
