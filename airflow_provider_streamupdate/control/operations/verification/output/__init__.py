"""What queries wrote to sinks that can be read from here: the folders of file sinks, and tables of Delta Lake."""
