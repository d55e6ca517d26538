"""What a well-formed plan is, one file a subject."""
