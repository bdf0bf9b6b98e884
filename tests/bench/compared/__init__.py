"""One task that the documentation of each other library shows, by that library and by this project."""
