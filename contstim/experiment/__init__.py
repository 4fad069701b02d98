"""The browser experiment: a study folder, the server that runs it, and the way back to tables."""
