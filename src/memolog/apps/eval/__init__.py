"""Evaluate memories: live through conversations, ask questions about them, judge the answers, and write a report."""
