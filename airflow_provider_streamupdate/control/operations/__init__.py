"""Operations: what is asked of an app, but for updates, which are made of them. A file an operation; each is a part of
the client (`control/client.py`), by which one comes in. Operations that change something are idempotent."""
