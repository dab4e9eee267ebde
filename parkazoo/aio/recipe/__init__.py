"""kazoo's recipes as coroutines: the same znodes, so both exclude each other."""
