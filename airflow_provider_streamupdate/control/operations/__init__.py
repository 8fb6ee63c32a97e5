"""Operations: what is asked of an app, but for updates, which are made of them. Each is a function whose first argument
is a `Context` (context.py): other operations call it with theirs, the client (`control/client.py`) has it as a method.
Operations that change something are idempotent."""
