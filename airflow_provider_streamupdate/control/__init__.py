"""Start drivers and run updates, without Airflow. The command line and the Airflow hook are built on it."""
