"""Building what candidates ask for: in private, content-addressed directories, without a GPU where possible."""
