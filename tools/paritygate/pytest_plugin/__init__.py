"""The pytest plugin: one test function stands for every case beneath its folder."""
