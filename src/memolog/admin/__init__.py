"""Administration: forget, edit, export, import, backup and doctor."""
