"""What an update changed, read afterwards: settings, code, and the hours before it beside the hours after it."""
