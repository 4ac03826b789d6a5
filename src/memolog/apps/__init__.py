"""What people run: the demo, and later the command line and the servers."""
