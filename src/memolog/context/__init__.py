"""What the model sees: the log as a stable prefix, the raw tail, and the edge."""
