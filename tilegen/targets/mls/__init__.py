"""The MLS-style machine: its instructions, its programs and their text."""
