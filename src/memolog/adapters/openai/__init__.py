"""Memory for plain OpenAI clients: translations of Chat Completions and of Responses."""
