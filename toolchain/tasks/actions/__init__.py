"""What each task does; heavy packages are imported only here."""
