"""Search, without a database: what a text is indexed as, what a query means, and how hits are ranked.

Knows words, dates and scores. Knows neither where the index is kept nor how it is read: the store hands in rows of keys.
"""
