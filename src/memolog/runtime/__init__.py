"""The imperative shell: the only place that reads a clock or draws a random number."""
