"""Reports: a plan written down so that every number can be taken apart later, in one file per format."""

REPORT_SUFFIXES = (".html", ".htm", ".md", ".xlsx", ".pptx", ".pdf", ".csv")
"""Reports that can be opened again, as the scenario that is embedded in them."""
