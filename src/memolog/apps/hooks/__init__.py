"""Hooks of coding agents (here called hosts), and their installation.

`entry` runs for each event of a host and writes the event to a spool. It imports few modules, because the host waits for it.
A detached process, the sweep, stores the events in the database and reads the host's transcript, so that no message is missed or
stored twice.
"""
