"""The `memolog` command line: one small file a group of verbs; `verb` says what all of them have in common."""
