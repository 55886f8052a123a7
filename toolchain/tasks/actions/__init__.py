"""The actions of the tasks; heavy packages are imported only here."""
