"""Which apps need somebody, why, and what helps: the same on the page, on the command line and as JSON."""
