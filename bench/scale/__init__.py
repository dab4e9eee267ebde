"""What many clients cost many ensembles: measured on one server, counted and simulated for all of them."""
