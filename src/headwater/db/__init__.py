"""The only SQL: named queries, typed functions over them, migrations, and the embedded server."""
