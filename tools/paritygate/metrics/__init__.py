"""Arrays in, numbers out: the metrics and what each of them means."""
