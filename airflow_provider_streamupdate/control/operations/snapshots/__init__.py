"""Operations on snapshots: saving, adopting and deleting them, and freeing what nothing needs (`gc`)."""
