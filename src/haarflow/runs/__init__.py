"""From a config to a run to a record to a report."""
