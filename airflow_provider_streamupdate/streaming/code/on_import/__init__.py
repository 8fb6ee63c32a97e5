"""The effects of importing an app's module, found in its source: which statements only assign names, which are known to
do nothing else, and what all others reach."""
