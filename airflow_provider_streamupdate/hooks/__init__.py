"""The hook: the connection, the client it gives, and how drivers are started through the Spark connection."""
