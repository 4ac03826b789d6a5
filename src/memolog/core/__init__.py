"""Values that every room uses: messages, observations, runs, ids, time, exact JSON and the configuration."""
