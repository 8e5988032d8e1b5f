"""The cluster in a browser: a page of the state in the records, and its server."""
