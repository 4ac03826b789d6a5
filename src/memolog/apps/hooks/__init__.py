"""Hooks of coding agents, and how they are installed.

`entry` runs for each event and writes it to a spool; it imports little because the coding agent waits for it. A detached `sweep`
stores the events and reads the agent's transcript, so that nothing is missed or stored twice.
"""
