"""How far weights can be trusted, computed before a report is written."""
