"""How commands start studies, and Dask workers."""
