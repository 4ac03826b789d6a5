"""Pure text functions: token counts, cutting, escaping, dates, words, identifiers and redaction."""
