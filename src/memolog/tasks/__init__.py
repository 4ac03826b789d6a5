"""The rules of task memory, pure: what blocks what, what is ready and why, what is alike, what is worth showing.

Knows values. Knows no store and no clock.
"""
