"""From an MLS plan to a program of the machine."""
