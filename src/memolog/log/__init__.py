"""The log of observations: its rows, the rules that decide when to observe, activate or reflect, and the runs."""
