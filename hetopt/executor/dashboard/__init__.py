"""The cluster in a browser: a page that reads the books, and the server that shows it."""
