"""The values that everything else is about: frozen, typed, without identity or I/O."""
