"""Operations on an app. Updates are made of them.

Each is a function whose first argument is a `Context` (context.py). Other operations call it with their own context;
the client (`control/client.py`) offers it as a method. Operations that change something are idempotent.
"""
