"""Search without a database: analyse texts, parse queries and rank hits. The store passes in rows of keys."""
