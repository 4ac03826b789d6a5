"""Memory for the libraries people already use: one small module a library, imported by its name.

An adapter translates: a library's messages into ours, our context into the library's request, one hook for each moment. It
decides nothing, and needs its library only when it is imported.
"""
