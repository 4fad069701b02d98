"""Making of a finished study a folder that others can use without contstim, and reading it back."""
