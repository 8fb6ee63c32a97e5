"""What stores files, each kind by its own rules. A `Folder` alone uses them.

backend.py       the contract: what every store does, and what it says of itself
roots.py         which backend a root has
disk.py          this machine's disk; durability.py: what survives a power failure there
fsspec_store.py  any other file system of fsspec
s3.py            S3, by s3fs
webhdfs.py       HDFS, by its HTTP interface
"""
