"""Rules of task memory, as pure functions."""
