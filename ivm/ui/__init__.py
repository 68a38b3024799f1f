"""The local page of `ivm ui`: what pipelines did, read from the files under their roots; nothing is written."""
