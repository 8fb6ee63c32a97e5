"""What an app's drivers did, minute by minute and hour by hour."""
