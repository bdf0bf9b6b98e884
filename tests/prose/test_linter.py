import pytest

from tests.prose.linter import EXCEPTIONS, RULES, faults, files


def found(tmp_path, text, suffix=".md"):
    path = tmp_path / f"page{suffix}"
    path.write_text(text, encoding="utf-8")
    return list(faults(path))


@pytest.mark.parametrize("rule", RULES["words"], ids=lambda rule: rule["example"])
def test_a_rule_rejects_its_example(rule, tmp_path):
    assert any(rule["instead"] in fault for fault in found(tmp_path, rule["example"]))


def test_a_long_sentence_is_a_fault(tmp_path):
    sentence = " ".join(f"word{i}" for i in range(RULES["max_words"] - 1))
    assert not found(tmp_path, f"One {sentence}. Two {sentence}.")
    assert "26 words" in found(tmp_path, f"One {sentence} too.")[0]


def test_only_prose_of_a_page_is_checked(tmp_path):
    no_prose = "---\nhence: 1\n---\n\n```python\nhence\n```\n\nUse `hence`.\n\n    hence = 0\n"
    assert not found(tmp_path, no_prose)
    assert len(found(tmp_path, "# Hence\n\n| a | hence |\n|---|---|\n| [hence](x.md) | b |\n")) == 3


def test_prose_after_code_with_a_backtick_is_checked(tmp_path):
    assert found(tmp_path, "| `` `pre-post` `` | a column |\n\nUse `hence`: it is hence small.\n")
    assert not found(tmp_path, "| `` `hence` ``, `hence` | a column |\n")


def test_docstrings_and_messages_of_a_module_are_checked(tmp_path):
    assert found(tmp_path, '"""Hence a module."""\n', ".py")[0].startswith("page.py:1:")
    assert found(tmp_path, 'def f(x):\n    raise ValueError(f"the value {x} is hence wrong")\n', ".py")
    assert not found(tmp_path, 'hence = {"hence": 1}  # hence\n', ".py")


def test_the_names_of_a_publisher_keep_their_spelling(tmp_path):
    title = "The Behaviour of a Swarm"
    assert found(tmp_path, f"declare(description={title!r})\n", ".py")
    for keyword in ("citation", "file", "url", "member", "label", "labels"):
        assert not found(tmp_path, f"declare({keyword}={title!r})\n", ".py")


def test_words_of_a_template_are_checked_between_its_tags(tmp_path):
    prose = "{% if hence %}\n    <p>The error\nis hence {{ error }}.</p>\n{% endif %}\n"
    assert found(tmp_path, prose, ".jinja")[0].startswith("page.jinja:3:")
    tags = '{% set x = "hence" %}{# hence #}<p class="hence">{{ hence }} is small.</p>\n'
    assert not found(tmp_path, tags, ".jinja")


def test_texts_of_a_study_file_are_checked_and_its_settings_are_not(tmp_path):
    settings = 'name = "hence"\n[[notes]]\ntext = """\nThe noise is \\\nhence small."""\n'
    assert found(tmp_path, settings, ".toml")[0].startswith("page.toml:4:")
    assert not found(tmp_path, 'params = { rule = "hence", bound = "2*sqrt(d)" }  # hence\n', ".toml")


def test_every_exception_has_a_reason_and_is_needed():
    texts = [path.read_text(encoding="utf-8") for path in files()]
    for each in EXCEPTIONS["exceptions"]:
        assert each["reason"]
        assert any(each["text"] in text for text in texts), each["text"]
