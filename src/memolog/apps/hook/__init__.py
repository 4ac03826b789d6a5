"""Hooks of coding agents: what a host tells is written down at once, and sorted later by one process at a time.

The way in (`entry`) loads next to nothing, since a host waits for it. What it wrote is stored by a detached `sweep`, which also
reads the host's own transcript, so that nothing is missed or doubled.
"""
