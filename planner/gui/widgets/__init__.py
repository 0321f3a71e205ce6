"""Small controls that Qt does not bring."""
