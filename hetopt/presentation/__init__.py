"""Tables, pictures and pages: the only package that uses terminals, Matplotlib and HTML."""
