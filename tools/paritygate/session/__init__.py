"""One case end to end: preflight, legs, comparison, verdict, record, report."""
