"""Tests on the ground that apps run on: other sinks, object storage, clusters. Not collected with the others, because
they need parts that are fetched (scripts/ground.sh): `make test-delta` and so on run one each."""
