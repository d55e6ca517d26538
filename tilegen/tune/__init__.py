"""Searches the schedules of a spec for the fastest on a GPU, and keeps what was found."""
