"""The five steps of the page, a screen each."""
