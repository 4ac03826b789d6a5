"""Hosts of coding agents: which files configure them, and how our entries get into these and out again without harm to others."""
