"""Tests on the ground that apps run on: other sinks, object storage, clusters. Not collected with the others, because
they need parts that are fetched (scripts/ground.sh): `make ground KIND=delta` and so on run one each."""
