"""Read conversations that other systems store; the format of a file is detected from its content."""
