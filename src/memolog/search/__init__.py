"""Search and recall: analysis, queries, the index, ranking, snippets and pages."""
