"""The demo: ten days of work on a small project through the true pipeline, live, without a key."""

from memolog.apps.demo.command import main

__all__ = ["main"]
