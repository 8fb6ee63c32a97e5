"""What a plan notes beside the queries: settings, the machine, imports; and which stages they cannot change."""
