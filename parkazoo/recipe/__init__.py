"""kazoo's recipes that need another shape over several ensembles."""
