"""Gate files, the profile that holds for a run, and the only place where a bound is applied."""
