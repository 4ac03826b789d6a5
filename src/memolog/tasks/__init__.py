"""Tasks with dependencies: values, rules, storage and calls."""
