"""The verbs of the `ivm` command: importing a module registers its own."""
