"""The HTML page about a folder of simulations: tables, charts, Gantt charts, and the numbers of the papers."""
