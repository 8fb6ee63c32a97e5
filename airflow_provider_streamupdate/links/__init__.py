"""Links on a task's page: Spark UI, driver log, compatibility report."""
