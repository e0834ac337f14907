"""What a secret leaves in a record: nothing."""

from paritygate.records.redact import redact, redact_data

ENVIRON = {"HF_TOKEN": "hf_abcdef", "OTHER_SECRET": "hf_abcdefghi", "PASSWORD": "short", "TOKENIZERS_X": "truthful"}


def test_secrets_are_blanked_longest_first_and_short_or_harmless_values_stay():
    assert redact("a hf_abcdefghi b hf_abcdef c short truthful", ENVIRON) == "a *** b *** c short truthful"


def test_secrets_inside_data_are_blanked_wherever_text_is():
    data = {"x hf_abcdef": [1, None, {"y": ("hf_abcdef", True)}]}
    assert redact_data(data, ENVIRON) == {"x ***": [1, None, {"y": ["***", True]}]}
