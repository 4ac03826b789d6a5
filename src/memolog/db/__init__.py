"""The two engines, SQLite and PostgreSQL: named queries, transactions, migrations and files."""
