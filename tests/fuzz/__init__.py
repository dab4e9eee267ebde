"""The same random calls on kazoo with one server and on ParKazoo with three ensembles."""
