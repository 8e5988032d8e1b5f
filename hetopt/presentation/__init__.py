"""Tables, pictures and pages: the place that knows terminals, Matplotlib and HTML."""
