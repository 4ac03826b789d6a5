"""The `memolog` command line. Each module has a few verbs; `command.verb` adds the options that all verbs have."""
