"""Where blocks run: threads of the run's process, or the workers of a Dask cluster."""
