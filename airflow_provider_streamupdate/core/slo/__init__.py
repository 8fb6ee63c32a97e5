"""The limits that hold a new version to what the app did in the 24 hours before its update."""
