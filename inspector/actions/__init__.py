"""What the app's keys do, one user-visible flow a file."""
