"""Ad-hoc comparison of files and folders: pair by name, check structure, measure, judge bounds. Not for cases."""
