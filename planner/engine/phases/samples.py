"""One sample of each kind of data: as it lies on disk, decoded, and prepared for the model."""

from dataclasses import dataclass

from planner.engine.term import Factor
from planner.scenario.preprocessing import Preprocessing

TYPE_BYTES = {"uint8": 1, "fp16": 2, "fp32": 4, "fp64": 8}
CHANNELS = 3
WAVEFORM_BYTES = 4
"""torchaudio.load and librosa.load give fp32."""
COLUMN_BYTES = 8
"""pandas and cuDF read numbers as int64 and float64."""
SPECTRA_PER_SECOND = 100
"""Whisper, wav2vec 2.0 and Kaldi's filter banks: one spectrum every 10 ms."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Bytes of one sample; `values` are the numbers in a prepared one."""

    raw_bytes: int
    decoded_bytes: int
    prepared_bytes: int
    values: int
    how: str

    def factor(self) -> Factor:
        return Factor("bytes per sample", self.prepared_bytes, self.how)


def sample_of(phase: Preprocessing) -> Sample:
    """The sizes of a sample, from its shape."""
    width = TYPE_BYTES[phase.sample_type]
    raw = phase.bytes_per_raw_sample
    if phase.kind == "text":
        tokens = phase.padded_tokens or phase.tokens_per_sample
        size = raw + tokens * phase.stored_bytes_per_token
        return Sample(raw, 0, size, tokens, "raw and tokenized")
    if phase.kind in ("images", "video"):
        frames = phase.frames_per_sample if phase.kind == "video" else 1
        decoded = frames * phase.image_height * phase.image_width * CHANNELS
        values = frames * phase.output_height * phase.output_width * CHANNELS
        clip = f"{frames} frames x " if phase.kind == "video" else ""
        how = f"{clip}{phase.output_height} x {phase.output_width} x {CHANNELS} x {width}"
        return Sample(raw, decoded, values * width, values, how)
    if phase.kind == "audio":
        points = round(phase.seconds_per_sample * phase.sampling_rate)
        spectra = round(phase.seconds_per_sample * SPECTRA_PER_SECOND)
        values = points if phase.mel_bins is None else spectra * phase.mel_bins
        how = f"{points} values x {width}" if phase.mel_bins is None else f"{spectra} x {phase.mel_bins} x {width}"
        return Sample(raw, points * WAVEFORM_BYTES, values * width, values, how)
    return Sample(raw, phase.columns * COLUMN_BYTES, phase.columns * width, phase.columns, f"{phase.columns} x {width}")
