"""Plain PySpark scripts as apps."""
