"""Workers: processes that do the background work of other processes."""
