"""Reports: a plan written down so that every number can be taken apart later, in one file per format."""
