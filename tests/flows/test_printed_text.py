"""What commands print to standard output, where names may come from somebody else."""

from flows.cli.options import show


def test_results_show_control_characters_of_names_and_keep_lines(capsys):
    """A column's name could otherwise move the cursor, and overwrite a number of a release."""
    show({}, ["age\t1.5", "\x1b[2K\x1b[1Aage ± 0\u202e"], as_json=False)
    assert capsys.readouterr().out == "age\t1.5\n\\x1b[2K\\x1b[1Aage ± 0\\u202e\n"
