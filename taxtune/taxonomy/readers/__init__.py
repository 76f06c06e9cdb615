"""Readers of taxonomy files: functions that turn the content of a file into a `RawTaxonomy`."""
