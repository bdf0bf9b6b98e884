"""The tasks of the flows, and what they call."""


class SpecError(ValueError):
    """A file or an option is wrong; the message names it, its key, its value and what is allowed."""
