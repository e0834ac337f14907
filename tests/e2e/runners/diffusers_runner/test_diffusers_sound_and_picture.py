"""A tiny LTX-2: clip and sound of one call, as the case ``ltx2-t2va`` asks for them."""

import av
import numpy as np
import pytest

from paritygate.media.video import open_video
from paritygate.records.canonical import sha256_bytes

from .conftest import VIDEO

#: Sizes that LTX-2 leaves open; the two branches of the denoiser and the vocoder stay what they are.
CONNECTOR = {
    f"{branch}_connector_{key}": value
    for branch in ("audio", "video")
    for key, value in {"num_attention_heads": 4, "attention_head_dim": 4, "num_layers": 1,
                       "num_learnable_registers": None}.items()
}  # fmt: skip
TRANSFORMER = {
    "in_channels": 4, "out_channels": 4, "num_attention_heads": 2, "attention_head_dim": 8, "cross_attention_dim": 16,
    "audio_in_channels": 4, "audio_out_channels": 4, "audio_num_attention_heads": 2, "audio_attention_head_dim": 4,
    "audio_cross_attention_dim": 8, "num_layers": 2, "caption_channels": 16, "rope_type": "split",
    "rope_double_precision": False,
}  # fmt: skip
VAE = {
    "latent_channels": 4, "block_out_channels": (8,), "decoder_block_out_channels": (8,), "layers_per_block": (1,),
    "decoder_layers_per_block": (1, 1), "spatio_temporal_scaling": (True,), "decoder_spatio_temporal_scaling": (True,),
    "decoder_inject_noise": (False, False), "downsample_type": ("spatial",), "upsample_residual": (False,),
    "upsample_factor": (1,), "patch_size": 1, "decoder_causal": False,
}  # fmt: skip
AUDIO_VAE = {
    "base_channels": 4, "ch_mult": (1,), "num_res_blocks": 1, "resolution": 32, "latent_channels": 2, "mel_bins": 8,
    "sample_rate": 16000, "mel_hop_length": 160,
}  # fmt: skip
VOCODER = {
    "in_channels": 16, "hidden_channels": 32, "upsample_kernel_sizes": [4, 4], "upsample_factors": [2, 2],
    "resnet_kernel_sizes": [3], "resnet_dilations": [[1, 3, 5]], "output_sampling_rate": 24000,
}  # fmt: skip
TEXT = {
    "vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8,
}  # fmt: skip
VISION = {
    "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28,
    "patch_size": 14,
}  # fmt: skip


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A folder of random weights."""
    import diffusers  # noqa: PLC0415 - a heavy import
    import torch  # noqa: PLC0415 - a heavy import
    import transformers  # noqa: PLC0415 - a heavy import
    from diffusers.pipelines.ltx2 import LTX2TextConnectors, LTX2Vocoder  # noqa: PLC0415 - a heavy import

    torch.manual_seed(0)
    marks = {"image_token_index": 60, "boi_token_index": 61, "eoi_token_index": 62, "mm_tokens_per_image": 4}
    text = transformers.Gemma3Config(text_config=TEXT, vision_config=VISION, **marks)
    pipeline = diffusers.LTX2Pipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        vae=diffusers.AutoencoderKLLTX2Video(**VAE),
        audio_vae=diffusers.AutoencoderKLLTX2Audio(**AUDIO_VAE),
        text_encoder=transformers.Gemma3ForConditionalGeneration(text).eval(),
        tokenizer=transformers.AutoTokenizer.from_pretrained(VIDEO / "tokenizer"),
        connectors=LTX2TextConnectors(
            caption_channels=16,
            text_proj_in_factor=3,
            connector_rope_base_seq_len=32,
            rope_double_precision=False,
            **CONNECTOR,
        ),
        transformer=diffusers.LTX2VideoTransformer3DModel(**TRANSFORMER),
        vocoder=LTX2Vocoder(**VOCODER),
    )
    folder = tmp_path_factory.mktemp("ltx2")
    pipeline.save_pretrained(folder)
    return folder


@pytest.fixture
def sounding_job(clip_job, weights):
    """A job that makes a clip with sound."""

    def make(*, output=None, **rest):
        request = {"fps": ..., "frame_rate": 24, "guidance_scale": 3.0, "audio_guidance_scale": 7.0}
        declared = {"kind": "video_audio", "fps": 24, "sample_rate_hz": 24000, "channels": 2, **(output or {})}
        call = {"spatio_temporal_guidance_blocks": [1], "max_sequence_length": 32}
        return clip_job(pipeline="LTX2Pipeline", model=weights, request=request, output=declared, call=call, **rest)

    return make


def test_clip_and_sound_of_one_call_are_stored_each_at_its_own_rate(run, sounding_job):
    import torch  # noqa: PLC0415 - a heavy import

    ran = run(sounding_job())
    roles = {media.role: media for media in ran.items[0].media}
    assert (roles["video"].fps, roles["audio"].sample_rate_hz) == (24, 24000)
    assert np.load(ran.media("video")).shape == (5, 32, 32, 3)
    assert np.load(ran.media("audio")).shape[1] == 2
    settings = ran.settings
    assert (settings["config.frame_rate"], settings["config.audio_guidance_scale"]) == (24, 7.0)
    assert {"dtype.audio_vae", "dtype.connectors", "dtype.transformer", "dtype.vocoder"} <= settings.keys()
    assert [len(row) for row in ran.effective.token_ids["0000"]] == [32, 32]
    # Packed as the denoiser takes them: (tokens, channels).
    noise = torch.randn((1, 4, 3, 16, 16), generator=torch.Generator("cpu").manual_seed(0))
    packed = noise.permute(0, 2, 3, 4, 1).reshape(-1, 4).contiguous().numpy()
    assert ran.effective.initial_latents["0000"] == sha256_bytes(packed.tobytes())


def test_clip_and_sound_are_one_encoded_file(run, sounding_job):
    encode = {"container": "mp4", "codec": "libx264", "pixel_format": "yuv420p", "audio_codec": "aac"}
    ran = run(sounding_job(output={"representation": "encoded"}, encode=encode))
    assert [media.role for media in ran.items[0].media] == ["video"]
    with open_video(ran.media("video")) as clip:
        assert clip.facts.has_audio
        assert (clip.facts.fps, len(list(clip))) == (24, 5)
    with av.open(str(ran.media("video"))) as file:
        assert file.streams.audio[0].rate == 24000
