"""The log of observations: its rows, the decision what to do next, and the runs that do it."""
