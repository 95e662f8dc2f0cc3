"""The subcommands of `sollens`, one module each: `add(commands)` declares it, its `run` returns the exit status."""
