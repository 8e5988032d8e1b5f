"""Jobs in stages: their graphs, what an iteration takes on given servers, which replica goes to which GPU."""
