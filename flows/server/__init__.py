"""The standing Prefect server and its worker, and the private server of a command."""
