"""Memory for plain Anthropic clients: translations of messages, with cache breakpoints."""
