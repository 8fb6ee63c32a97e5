"""What make first-hour is made of."""
