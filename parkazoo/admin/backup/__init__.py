"""What a backup of the servers' data has to be compared with: every directory, and where its parts are."""
