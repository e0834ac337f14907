"""Sound metrics, each against a value worked out by hand or by other code."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paritygate.errors import MetricError
from paritygate.metrics import audio
from paritygate.metrics.specs import SPECS, default_metrics

RATE = 16000
TIME = np.arange(RATE) / RATE
SINE = 0.5 * np.sin(2 * np.pi * 440 * TIME)[:, None]
NOISE = np.random.default_rng(1).standard_normal((RATE, 1))
ALL = tuple(name for name, spec in SPECS.items() if "audio" in spec.kinds)


def measure(reference, candidate, names=ALL):
    return {
        name: value.number for name, value in audio.measure(names, reference, candidate, sample_rate_hz=RATE).items()
    }


def test_every_name_of_the_catalog_is_measured_and_the_defaults_show_level_and_spectrum():
    assert set(measure(SINE, SINE)) == set(ALL)
    assert {"level_difference_abs_db", "log_mel_distance_db", "relative_l2"} <= set(default_metrics("audio"))


@pytest.mark.parametrize("name", [name for name in ALL if SPECS[name].identical is not None])
def test_identical_sounds_reach_the_best_value(name):
    sound = 0.1 * NOISE
    assert measure(sound, sound.copy(), [name])[name] == SPECS[name].identical


def test_b77_sounds_of_another_shape_are_refused_before_any_number():
    for other in (SINE[:-1], np.repeat(SINE, 2, axis=1)):
        with pytest.raises(MetricError, match="differ"):
            audio.measure(ALL, SINE, other, sample_rate_hz=RATE)


def test_b78_noise_of_30_percent_shows_in_relative_l2_while_cosine_stays_high():
    noise = NOISE * (0.3 * np.linalg.norm(SINE) / np.linalg.norm(NOISE))
    found = measure(SINE, SINE + noise)
    assert found["relative_l2"] == pytest.approx(0.3, rel=1e-9)
    assert 0.94 < found["cosine"] < 0.97


def test_b79_lost_loudness_shows_in_level_while_cosine_and_similarity_stay_1():
    found = measure(SINE + 0.05 * NOISE, 0.3 * (SINE + 0.05 * NOISE))
    assert found["cosine"] == pytest.approx(1.0, abs=1e-12)
    assert found["log_mel_similarity"] == pytest.approx(1.0, abs=1e-9)
    assert found["level_difference_db"] == pytest.approx(-10.457575, abs=1e-6)
    assert found["level_difference_abs_db"] == pytest.approx(10.457575, abs=1e-6)
    assert found["log_mel_distance_db"] == pytest.approx(10.457575, abs=1e-6)


def test_a_delay_of_a_quarter_period_is_no_likeness_to_the_waveform_but_to_the_spectrum():
    later = 0.5 * np.sin(2 * np.pi * 500 * TIME - np.pi / 2)[:, None]
    found = measure(0.5 * np.sin(2 * np.pi * 500 * TIME)[:, None], later)
    assert abs(found["cosine"]) < 1e-9
    assert found["log_mel_similarity"] > 0.99
    assert found["relative_l2"] == pytest.approx(math.sqrt(2), rel=1e-6)
    assert found["level_difference_abs_db"] < 1e-6


def test_swapped_channels_show():
    stereo = np.hstack([SINE, 0.1 * NOISE])
    found = audio.measure(ALL, stereo, stereo[:, ::-1], sample_rate_hz=RATE)
    assert found["relative_l2"].number > 0.5
    assert found["level_difference_abs_db"].number > 5
    assert found["log_mel_distance_db"].detail["channel"] in (0, 1)


def test_the_worst_channel_decides_and_is_named():
    stereo = np.hstack([SINE, SINE])
    found = audio.measure(ALL, stereo, stereo * [1.0, 0.5], sample_rate_hz=RATE)
    level = found["level_difference_abs_db"]
    assert level.number == pytest.approx(6.0206, abs=1e-4)
    assert level.detail["channel"] == 1
    assert found["log_mel_distance_db"].detail["channel"] == 1


@pytest.mark.parametrize(("reference", "candidate"), [(SINE, 0 * SINE), (0 * SINE, SINE), (0 * SINE, 0 * SINE)])
def test_silence_on_either_side_is_refused_with_its_reason(reference, candidate):
    for value in audio.measure(ALL, reference, candidate, sample_rate_hz=RATE).values():
        assert math.isnan(value.number)
        assert "silent" in value.problem


def test_one_channel_that_falls_silent_is_infinitely_far_in_level():
    stereo = np.hstack([SINE, SINE])
    found = audio.measure(ALL, stereo, stereo * [1.0, 0.0], sample_rate_hz=RATE)
    assert found["level_difference_abs_db"].number == math.inf
    assert found["level_difference_abs_db"].detail == {"channel": 1, "by_channel": [0.0, "-inf"]}
    for value in found.values():
        json.dumps(dict(value.detail), allow_nan=False)


def test_sounds_below_the_floor_have_no_spectrum_that_could_agree():
    for reference, candidate in ((1e-7 * SINE, 1e-7 * NOISE), (SINE, 1e-7 * SINE)):
        for name in ("log_mel_distance_db", "log_mel_similarity"):
            value = audio.measure([name], reference, candidate, sample_rate_hz=RATE)[name]
            assert math.isnan(value.number)
            assert "below -100 dB of full scale everywhere" in value.problem


def test_one_channel_of_silence_on_both_sides_leaves_the_other_to_decide():
    stereo = np.hstack([0.1 * NOISE, 0 * NOISE])
    found = measure(stereo, 0.5 * stereo)
    assert found["log_mel_distance_db"] == pytest.approx(6.0206, abs=1e-4)
    assert found["level_difference_abs_db"] == pytest.approx(6.0206, abs=1e-4)


def test_values_whose_squares_overflow_give_no_number_and_no_warning():
    for value in audio.measure(ALL, 1e200 * NOISE, 1.1e200 * NOISE, sample_rate_hz=RATE).values():
        assert math.isnan(value.number)
        assert "times full scale" in value.problem


@pytest.mark.parametrize("rate", [0.5, 1, 20, 1000])
def test_a_rate_too_low_for_the_bands_gives_no_spectrum_and_no_agreement(rate):
    value = audio.measure(["log_mel_similarity"], NOISE, -NOISE, sample_rate_hz=rate)["log_mel_similarity"]
    assert "bands hold no frequency" in value.problem


def test_both_numbers_on_spectra_share_them(monkeypatch):
    made = []
    plain = audio.log_mel
    monkeypatch.setattr(audio, "log_mel", lambda *given: made.append(0) or plain(*given))
    measure(SINE, 0.5 * SINE, ["log_mel_distance_db", "log_mel_similarity"])
    assert len(made) == 2


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_values_that_are_not_finite_give_no_number(odd):
    broken = SINE.copy()
    broken[7] = odd
    found = audio.measure(ALL, SINE, broken, sample_rate_hz=RATE)
    assert all(value.problem and math.isnan(value.number) for value in found.values())


def test_half_a_second_of_silence_in_one_second_is_a_share_of_a_half():
    half = SINE.copy()
    half[RATE // 2 :] = 0
    found = audio.measure(["silence_share_difference"], SINE, half, sample_rate_hz=RATE)["silence_share_difference"]
    assert found.number == pytest.approx(0.5, abs=0.01)
    assert found.detail["reference"] == [0.0]


def test_a_full_scale_sine_reads_zero_db_in_its_band():
    spectrum = audio.log_mel(np.sin(2 * np.pi * 1000 * TIME), RATE)
    assert spectrum.max() == pytest.approx(0.0, abs=2.0)
    assert spectrum.min() >= audio.FLOOR_DB


def test_the_spectrum_is_that_of_a_plain_fourier_sum():
    """One window, band by band, without FFT, batches or matrices."""
    sound = 0.2 * NOISE[:1024, 0]
    window = [0.5 - 0.5 * math.cos(2 * math.pi * n / 1024) for n in range(1024)]
    turn = np.exp(-2j * np.pi * np.outer(np.arange(513), np.arange(1024)) / 1024)
    power = np.abs(turn @ (sound * window)) ** 2 * (2 / sum(window)) ** 2
    top = 2595 * math.log10(1 + 8000 / 700)
    edges = [700 * (10 ** (top * k / 65 / 2595) - 1) for k in range(66)]
    for band in range(64):
        low, middle, high = edges[band : band + 3]
        total = 0.0
        for number, value in enumerate(power):
            hertz = number * RATE / 1024
            weight = (hertz - low) / (middle - low) if hertz <= middle else (high - hertz) / (high - middle)
            total += max(0.0, weight) * value
        assert audio.log_mel(sound, RATE)[0, band] == pytest.approx(10 * math.log10(max(total, 1e-10)), abs=1e-6)


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 48000])
def test_no_band_is_empty_at_usual_rates(rate):
    length = 1 << (math.ceil(audio.WINDOW_S * rate) - 1).bit_length()
    assert (audio.mel_bands(length, rate).sum(axis=1) > 0).all()


def test_a_sound_shorter_than_a_window_has_no_spectrum():
    value = audio.measure(["log_mel_distance_db"], SINE[:500], SINE[:500], sample_rate_hz=RATE)["log_mel_distance_db"]
    assert "less than one window" in value.problem


@settings(max_examples=8, deadline=None)
@given(amount=st.floats(1e-4, 0.05), more=st.floats(1.5, 4))
def test_more_noise_is_never_better(amount, more):
    less, much = (measure(SINE, SINE + share * NOISE) for share in (amount, amount * more))
    assert less["relative_l2"] < much["relative_l2"]
    assert less["log_mel_distance_db"] < much["log_mel_distance_db"]
    assert less["log_mel_similarity"] > much["log_mel_similarity"]


def test_an_unknown_name_is_refused():
    with pytest.raises(MetricError, match="ssim"):
        audio.measure(["ssim"], SINE, SINE, sample_rate_hz=RATE)
