"""The operations of a map whose placement has changed, or may change: pins decide where children are."""
