"""The DAGs that the page and the guides speak of, one file each. ``streamupdate init-dags FOLDER`` copies them into a
DAGs folder; in the repository, ``dags/`` links to them. They are yours to change after that."""
