"""The hook: the connection, its client, and the start of drivers through the Spark connection."""
