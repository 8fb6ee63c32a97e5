"""Parts of scripts/crash.py, one noun a file."""
