"""Items: JSON objects of a program under namespaces and keys, their storage, ranking and calls."""
