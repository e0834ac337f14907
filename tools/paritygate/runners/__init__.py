"""How a leg produces its output: one module per runner, in a worker process of its own."""
