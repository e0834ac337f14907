"""The ``openai`` runner and a server that does what it should: what goes out, what comes back, and what is probed."""

import hashlib
import json
import math
from pathlib import Path

import av
import numpy as np
import pytest

from paritygate.errors import LegError
from paritygate.manifest.case import InputMedia, Item, Output
from paritygate.media.images import decode_image
from paritygate.records.model import OUTPUTS_NAME, Effective
from paritygate.runners.openai_probe import distance, other, probe
from paritygate.runners.python import load_file

leg = load_file(Path(__file__).with_name("openai_leg.py"))
stub = leg.stub
REQUEST = leg.REQUEST
CLIP = Output(kind="video", width=16, height=16, frames=3, fps=8, representation="encoded")


def effective(writer) -> Effective:
    return Effective(**json.loads((writer.directory / "effective.json").read_text()))


def outputs(writer) -> dict:
    return {item["id"]: item for item in json.loads((writer.directory / OUTPUTS_NAME).read_text())["items"]}


def sent(server) -> list[dict]:
    return [json.loads(body) for method, _, _, body in server.requests if method == "POST"]


def form_of(server, index: int = 0) -> list:
    _, _, headers, body = [request for request in server.requests if request[0] == "POST"][index]
    return stub.form(headers["Content-Type"], body)


def test_a_generation_is_one_request_an_item_with_everything_that_it_says(tmp_path):
    request = {**REQUEST, "negative_prompt": "blurry", "guidance_scale": 3.5, "num_inference_steps": 7}
    items = (Item(id="000", request=request), Item(id="001", request={**request, "seed": 2, "negative_prompt": None}))
    server, writer = leg.ask(tmp_path, items=items, probe=[])
    first, second = sent(server)
    assert first == {
        "model": "a-model",
        "n": 1,
        "output_format": "png",
        "response_format": "b64_json",
        "prompt": "a cat",
        "negative_prompt": "blurry",
        "seed": 1,
        "size": "4x4",
        "guidance_scale": 3.5,
        "num_inference_steps": 7,
    }
    assert second == {key: value for key, value in {**first, "seed": 2}.items() if key != "negative_prompt"}
    asked = [(method, path, headers["X-Request-Id"]) for method, path, headers, _ in server.requests]
    assert asked == [
        ("GET", "/health", None),
        ("POST", "/v1/images/generations", "000"),
        ("POST", "/v1/images/generations", "001"),
    ]
    headers = server.requests[1][2]
    assert (headers["Connection"], headers["Accept-Encoding"]) == ("close", "identity")
    assert headers["Authorization"] is None
    assert list(outputs(writer)) == ["000", "001"]
    assert effective(writer).settings == {}
    assert effective(writer).effects == {}
    assert not list(writer.directory.glob("download-*"))


def test_pixels_are_stored_as_the_server_gave_them(tmp_path):
    _, writer = leg.ask(tmp_path, "url", probe=[])
    stored = decode_image(
        (writer.directory / outputs(writer)["000"]["images"][0]["path"]).read_bytes(), mode="RGB", name="a.png"
    )
    assert np.array_equal(stored, np.full((4, 4, 3), 7, np.uint8))


def test_an_answer_with_fewer_images_is_stored_for_the_comparison_to_judge(tmp_path):
    output = Output(kind="images", width=4, height=4, count=3)
    server, writer = leg.ask(tmp_path, "fewer", output=output, probe=[])
    assert sent(server)[0]["n"] == 3
    assert len(outputs(writer)["000"]["images"]) == 2


@pytest.mark.parametrize("mode", ["url", "url-relative"])
def test_an_address_on_the_same_server_is_fetched_from_it(tmp_path, mode):
    server, _ = leg.ask(tmp_path, mode, probe=[])
    assert server.requests[-1][1].startswith("/files/a.png")


def test_a_base_url_with_a_path_stands_before_every_path_but_those_of_answers(tmp_path):
    with leg.serving("url-relative") as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/below/"
        leg.run(leg.make_job(tmp_path / "leg", url=url, effective="/effective", probe=[]))
    paths = [path for _, path, _, _ in server.requests]
    assert paths == ["/below/health", "/below/v1/images/generations", "/files/a.png", "/below/effective"]


def test_fields_name_exactly_what_is_sent_besides_the_standard_ones(tmp_path):
    request = {**REQUEST, "true_cfg_scale": 4.0, "cosmic": [1, 2], "num_images_per_prompt": 1}
    server, _ = leg.ask(
        tmp_path,
        request=request,
        fields={"true_cfg_scale": "guidance", "cosmic": "cosmic_rays", "seed": "noise_seed"},
        send={"quality": "high", "output_format": None, "model": "served"},
        probe=[],
    )
    assert sent(server)[0] == {
        "model": "served",
        "n": 1,
        "response_format": "b64_json",
        "quality": "high",
        "prompt": "a cat",
        "noise_seed": 1,
        "size": "4x4",
        "guidance": 4.0,
        "cosmic_rays": [1, 2],
    }


def test_width_and_height_can_be_fields_of_their_own(tmp_path):
    server, _ = leg.ask(tmp_path, fields={"width": "width", "height": "height"}, probe=[])
    assert "size" not in sent(server)[0]
    assert sent(server)[0]["width"] == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"request": {**REQUEST, "eta": 0.5}}, r"request.eta of item 000 would not reach the server.* has no field"),
        ({"request": {**REQUEST, "guidance_scale": 3}, "fields": {}}, r"request.guidance_scale of item 000"),
        ({"request": {"prompt": "a", "width": 4}}, r"request.width of item 000"),
        ({"request": {**REQUEST, "num_images_per_prompt": 2}}, r"request.num_images_per_prompt of item 000"),
        ({"send": {"seed": 3}}, r"the field 'seed' would have two values"),
        ({"fields": {"seed": "prompt"}}, r"the field 'prompt' would have two values"),
        ({"fields": {"seed": "size"}}, r"the field 'size' would have two values"),
        ({"request": {**REQUEST, "guidance_scale": math.inf}}, r"request of item 000 cannot be sent: .*JSON"),
        ({"probe": ["guidance_scale"]}, r"probe names 'guidance_scale', which the request of item 000 does not send"),
        (
            {"fields": {"sigmas": "sigmas"}, "request": {**REQUEST, "sigmas": [1.0]}, "probe": ["sigmas"]},
            "no other value",
        ),
        ({"output": CLIP}, r"images/generations does not give output.kind video"),
        ({"endpoint": "videos"}, r"videos does not give output.kind images"),
        ({"endpoint": "images/edits"}, r"images/edits needs an image to edit"),
        ({"api_key_env": "NO_SUCH_KEY"}, r"variable NO_SUCH_KEY \(api_key_env\) is not set"),
    ],
)
def test_what_would_not_reach_the_server_is_refused_before_anything_is_asked(tmp_path, changes, words):
    with leg.serving() as server:
        job = leg.make_job(tmp_path / "leg", url=f"http://127.0.0.1:{server.server_address[1]}", **changes)
        with pytest.raises(LegError, match=words):
            leg.run(job)
        assert server.generations == 0


def media(folder: Path, role: str, name: str, content: bytes) -> InputMedia:
    (folder / name).write_bytes(content)
    return InputMedia(role=role, path=name, sha256=f"sha256:{hashlib.sha256(content).hexdigest()}")


def test_an_edit_sends_its_images_in_order_and_its_mask_as_files_named_by_their_content(tmp_path):
    red, blue, mask = stub.png(4, 4, b"\xff\0\0"), stub.JPEG, stub.png(4, 4, b"\xff")
    inputs = (
        media(tmp_path, "source", "b.jpg", red),
        media(tmp_path, "image", "a.png", blue),
        media(tmp_path, "mask", "m.png", mask),
    )
    request = {**REQUEST, "strength": 0.75, "prompt": 'a "cat"\r\n--x 猫'}
    server, writer = leg.ask(tmp_path, endpoint="images/edits", request=request, inputs=inputs, probe=[])
    parts = form_of(server)
    texts = {name: data.decode() for name, file, _, data in parts if file is None}
    assert texts == {
        "model": "a-model",
        "n": "1",
        "output_format": "png",
        "response_format": "b64_json",
        "prompt": 'a "cat"\r\n--x 猫',
        "seed": "1",
        "size": "4x4",
        "strength": "0.75",
    }
    assert [part for part in parts if part[1] is not None] == [
        ("image", "source-0.png", "image/png", red),
        ("image", "image-1.jpg", "image/jpeg", blue),
        ("mask", "mask-2.png", "image/png", mask),
    ]
    assert len(outputs(writer)["000"]["images"]) == 1


def test_an_input_that_is_not_the_file_of_the_case_is_refused(tmp_path):
    source = media(tmp_path, "source", "a.png", b"one")
    (tmp_path / "a.png").write_bytes(b"two")
    with pytest.raises(LegError, match=r"a.png is not the file that the case names"):
        leg.ask(tmp_path, endpoint="images/edits", inputs=(source,))


@pytest.mark.parametrize(
    ("endpoint", "output", "roles", "words"),
    [
        ("images/generations", leg.IMAGES, ["image"], "takes no input of the role image"),
        ("images/edits", leg.IMAGES, ["image", "last_frame"], "takes no input of the role last_frame"),
        ("images/edits", leg.IMAGES, ["image", "mask", "mask"], "takes one mask"),
        ("images/edits", leg.IMAGES, ["mask"], "needs an image to edit"),
        ("videos", CLIP, ["first_frame", "image"], "takes one reference"),
        ("videos", CLIP, ["audio"], "takes no input of the role audio"),
    ],
)
def test_inputs_that_an_endpoint_does_not_take_are_refused(tmp_path, endpoint, output, roles, words):
    inputs = tuple(media(tmp_path, role, f"{index}.png", bytes([index])) for index, role in enumerate(roles))
    with pytest.raises(LegError, match=words):
        leg.ask(tmp_path, endpoint=endpoint, inputs=inputs, output=output)


def test_a_key_goes_out_as_a_bearer_token_and_into_nothing_that_is_kept(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("STUB_DOOR", "open-sesame-4711")
    told = rb'{"settings": {"door": "open-sesame-4711", "other door": "\u006fpen-sesam\u0065-4711"}}'
    server, writer = leg.ask(tmp_path, api_key_env="STUB_DOOR", told=told, effective="/effective")
    assert effective(writer).settings == {"door": "***", "other door": "***"}
    assert {headers["Authorization"] for _, _, headers, _ in server.requests} == {"Bearer open-sesame-4711"}
    with pytest.raises(LegError, match=r"HTTP 401: bad key Bearer \*\*\*"):
        leg.ask(tmp_path / "again", "tells-key", api_key_env="STUB_DOOR")
    with leg.serving("bytes") as server:
        server.bytes = leg.stub.OK + b"\r\nnonsense" + b" " * 182 + b"open-sesame-4711"
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(LegError, match=r"unusable JSON .*: nonsense$"):
            leg.run(leg.make_job(tmp_path / "cut", url=address, api_key_env="STUB_DOOR"))
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"sesame" not in kept
    assert "sesame" not in "".join(capfd.readouterr())


def test_a_proxy_of_the_environment_is_not_used(tmp_path, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server, _ = leg.ask(tmp_path, probe=[])
    assert server.generations == 1


TOLD = {
    "schema_version": 1,
    "settings": {"dtype.transformer": "float32", "config.guidance_scale": 3.5},
    "token_ids": {"000": [[1, 2]], "warm-up": [[9]]},
    "timesteps": [999, 499],
    "sigmas": [1.0, "inf"],
    "initial_latents": {"000": f"sha256:{'a' * 64}", "other": f"sha256:{'b' * 64}"},
    "features": {"cache": {"hits": 3}},
    "environment": {"torch": "2.0"},
}


def test_what_a_server_tells_is_reported_for_the_items_of_the_suite_only(tmp_path):
    server, writer = leg.ask(tmp_path, told=json.dumps(TOLD).encode(), effective="/effective")
    told = effective(writer)
    assert told.settings == TOLD["settings"]
    assert (told.token_ids, told.timesteps, told.sigmas) == ({"000": [[1, 2]]}, [999, 499], [1.0, "inf"])
    assert told.initial_latents == {"000": f"sha256:{'a' * 64}"}
    assert told.features == {"cache": {"hits": 3}}
    assert told.environment == {"endpoint": "images/generations", "server": {"torch": "2.0"}}
    # It is asked before the probe, whose requests are not the suite's.
    paths = [path for _, path, _, _ in server.requests]
    assert paths.index("/effective") == 2
    assert len(paths) == 5


@pytest.mark.parametrize(
    "told",
    [
        {"setings": {}},
        {"settings": {"a": [1]}},
        {"initial_latents": {"000": "abc"}},
        {"timesteps": "all"},
        {"schema_version": 99},
        {"token_ids": {"000": [["a"]]}},
        {"effects": {"seed": {"exercised": True, "detail": "trust me"}}},
        [],
    ],
)
def test_what_is_not_in_the_format_of_effective_settings_is_refused(tmp_path, told):
    with pytest.raises(LegError, match=r"/effective is not in the format of effective.json: \S+"):
        leg.ask(tmp_path, told=json.dumps(told).encode(), effective="/effective")


FULL = {**REQUEST, "negative_prompt": "blurry", "guidance_scale": 3.0, "true_cfg_scale": 4.0}
PROBED = ("seed", "negative_prompt", "guidance_scale", "true_cfg_scale")


def test_a_server_that_uses_everything_shows_an_effect_of_everything(tmp_path):
    server, writer = leg.ask(tmp_path, request=FULL)
    found = effective(writer).effects
    assert tuple(found) == PROBED
    assert all(effect["exercised"] for effect in found.values())
    assert found["seed"]["detail"].startswith("1 -> 2 changes pixels by up to ")
    assert found["seed"]["detail"].endswith("; a repetition changes pixels by up to 0 levels")
    names = [headers["X-Request-Id"] for method, _, headers, _ in server.requests if method == "POST"]
    assert names == ["000", "000-repeat", *(f"000-probe-{field}" for field in PROBED)]
    assert len(outputs(writer)["000"]["images"]) == 1


@pytest.mark.parametrize("ignored", PROBED)
def test_a_server_that_answers_200_and_ignores_a_field_is_found_out(tmp_path, ignored):
    _, writer = leg.ask(tmp_path, f"ignore:{ignored}", request=FULL)
    found = effective(writer).effects
    assert {field for field, effect in found.items() if not effect["exercised"]} == {ignored}
    assert "changes pixels by up to 0 levels" in found[ignored]["detail"]


def test_a_server_that_never_repeats_itself_shows_no_effect_of_anything(tmp_path):
    _, writer = leg.ask(
        tmp_path,
        "random",
        output=Output(kind="images", width=64, height=64),
        request={**FULL, "width": 64, "height": 64},
    )
    found = effective(writer).effects
    assert not any(effect["exercised"] for effect in found.values())


def test_a_value_that_the_server_refuses_shows_no_effect_and_says_why(tmp_path):
    _, writer = leg.ask(tmp_path, "strict")
    found = effective(writer).effects["seed"]
    assert not found["exercised"]
    assert (
        "1 -> 2 was refused: POST /v1/images/generations was answered with HTTP 422: seed must be odd"
        in found["detail"]
    )


def test_a_repetition_that_the_server_refuses_shows_no_effect(tmp_path):
    _, writer = leg.ask(tmp_path, "error-500@1")
    assert "the repetition was refused" in effective(writer).effects["seed"]["detail"]


def test_declared_fields_are_probed_instead(tmp_path):
    request = {**FULL, "num_inference_steps": 20}
    _, writer = leg.ask(tmp_path, request=request, probe=["num_inference_steps", "prompt", "width"])
    assert all(effect["exercised"] for effect in effective(writer).effects.values())
    assert list(effective(writer).effects) == ["num_inference_steps", "prompt", "width"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("seed", 7, 8),
        ("seed", 2**31 - 1, 2**31 - 2),
        ("guidance_scale", 0.0, 2.0),
        ("strength", 1.0, 0.5),
        ("strength", 0, 0.5),
        ("use_cache", True, False),
        ("num_frames", 33, 37),
    ],
)
def test_another_value_is_a_valid_one(key, value, expected):
    assert other(key, value) == expected


def clip(path: Path, level: int, frames: int = 3) -> bytes:
    with av.open(str(path), "w") as target:
        stream = target.add_stream("ffv1", rate=8)
        stream.width, stream.height, stream.pix_fmt = 16, 16, "bgr0"
        for index in range(frames):
            frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), level + index, np.uint8), format="rgb24")
            target.mux(stream.encode(frame))
        target.mux(stream.encode())
    return path.read_bytes()


@pytest.fixture
def clips(tmp_path, monkeypatch):
    monkeypatch.setattr("paritygate.runners.openai_answers._POLL_S", (0.01, 0.02))
    return {"1": clip(tmp_path / "a.mkv", 10), "2": clip(tmp_path / "b.mkv", 15)}


VIDEO = {
    "endpoint": "videos",
    "output": CLIP,
    "request": {**REQUEST, "width": 16, "height": 16, "num_frames": 3, "fps": 8, "duration_s": 0.375},
}


def test_a_clip_is_asked_for_waited_for_and_stored_as_it_comes(tmp_path, clips):
    first = media(tmp_path, "first_frame", "first.png", stub.png(16, 16, b"\x10"))
    server, writer = leg.ask(tmp_path, clips=clips, inputs=(first,), probe=[], **VIDEO)
    parts = {name: (file, data) for name, file, _, data in form_of(server)}
    assert parts["input_reference"][0] == "first_frame-0.png"
    assert {name: data for name, (file, data) in parts.items() if file is None} == {
        "model": b"a-model",
        "prompt": b"a cat",
        "seed": b"1",
        "size": b"16x16",
        "num_frames": b"3",
        "fps": b"8",
        "seconds": b"0.375",
    }
    paths = [path for method, path, _, _ in server.requests if method == "GET"]
    assert paths == ["/health", "/v1/videos/video_0-1", "/v1/videos/video_0-1", "/v1/videos/video_0-1/content"]
    assert {headers["X-Request-Id"] for _, path, headers, _ in server.requests if "videos" in path} == {"000"}
    [stored] = outputs(writer)["000"]["media"]
    assert (stored["role"], stored["representation"]) == ("video", "encoded")
    assert (writer.directory / stored["path"]).read_bytes() == clips["1"]


def test_a_job_may_be_answered_as_accepted(tmp_path, clips):
    _, writer = leg.ask(tmp_path, "accepts", clips=clips, probe=[], **VIDEO)
    assert len(outputs(writer)["000"]["media"]) == 1


@pytest.mark.parametrize(("words", "exercised"), [((), True), (("ignore:seed",), False)])
def test_frames_of_clips_tell_whether_a_field_had_an_effect(tmp_path, clips, words, exercised):
    _, writer = leg.ask(tmp_path, *words, clips={**clips, "None": clips["1"]}, **VIDEO)
    effect = effective(writer).effects["seed"]
    assert effect["exercised"] is exercised
    assert (
        effect["detail"]
        == f"1 -> 2 changes frames by up to {5 * exercised} levels; a repetition changes frames by up to 0 levels"
    )
    assert len(outputs(writer)["000"]["media"]) == 1


def test_clips_that_cannot_be_decoded_are_held_together_byte_by_byte(tmp_path, clips):
    bad = b"\x1aE\xdf\xa3 no clip "
    _, writer = leg.ask(tmp_path, clips={"1": bad, "2": bad + b"at all"}, **VIDEO)
    effect = effective(writer).effects["seed"]
    assert effect["exercised"]
    assert effect["detail"] == (
        "1 -> 2 changes bytes of the file, which cannot be decoded; a repetition changes no byte of the file"
    )


class Told(dict):
    """Takes the effects that a probe reports."""

    def effect(self, field, *, exercised, detail):
        self[field] = (exercised, detail)


def level(value: int, size: int = 4) -> list:
    return [np.full((size, size, 3), value, np.uint8)]


@pytest.mark.parametrize(
    ("repeated", "changed", "exercised", "words"),
    [
        (10, 11, True, "changes pixels by up to 1 levels; a repetition changes pixels by up to 0 levels"),
        (10, 10, False, "changes pixels by up to 0 levels"),
        (13, 16, False, "changes pixels by up to 6 levels; a repetition changes pixels by up to 3 levels"),
        (13, 17, True, "changes pixels by up to 7 levels"),
        (0, 31, True, "changes pixels by up to 21 levels; a repetition changes pixels by up to 10 levels"),
    ],
)
def test_a_change_counts_when_it_is_more_than_twice_what_a_repetition_gives(repeated, changed, exercised, words):
    told = Told()
    answers = {"000-repeat": level(repeated), "000-probe-seed": level(changed)}
    probe(Item(id="000", request={"seed": 1}), level(10), ("seed",), lambda _request, name: answers[name], told)
    assert told["seed"][0] is exercised
    assert words in told["seed"][1]


def test_results_of_another_size_or_number_are_infinitely_far_apart(tmp_path):
    assert distance(level(1), level(1, size=5)) == (math.inf, "pixels in size or number")
    assert distance(level(1), level(1) * 2) == (math.inf, "images in size or number")
    clip(tmp_path / "a.mkv", 10)
    clip(tmp_path / "b.mkv", 10, frames=2)
    assert distance(tmp_path / "a.mkv", tmp_path / "b.mkv") == (math.inf, "frames in size or number")
    assert distance(tmp_path / "b.mkv", tmp_path / "b.mkv")[0] == 0


def test_a_long_text_is_shown_shortened(tmp_path):
    _, writer = leg.ask(tmp_path, request={**REQUEST, "prompt": "x" * 500}, probe=["prompt"])
    detail = effective(writer).effects["prompt"]["detail"]
    assert detail.startswith(f"'{'x' * 39}…' -> 'a red square on a white wall, xxxxxxxxx…' changes pixels")
