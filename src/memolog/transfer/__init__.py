"""Read the conversations of other systems, and detect the format of a file from its content."""
