"""`python -m tilegen`: the command, where its script is not on the path."""

from tilegen.cli.main import main

main(prog_name="tilegen")
