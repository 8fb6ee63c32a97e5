"""Whether a new version does as well as the app did in the hours before it."""
