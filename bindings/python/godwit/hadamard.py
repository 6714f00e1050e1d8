# SPDX-License-Identifier: BSD-3-Clause
"""The randomised Hadamard transform on a tensor's own device, for bounded operations on data that are coefficients already
(GW_BOUNDED_TRANSFORMED).

A block of 4096 numbers x becomes H D x / 64: D flips signs that a seed gives, H is the Walsh-Hadamard matrix. Only additions,
subtractions, changes of sign and products with a power of two are used, one number at a time and always in the same order: every
device computes the same bits, so that replicas which decode the same coefficients stay equal. A product with a matrix would
take fewer passes over the memory, but adds in an order that depends on the device, and may round to ten bits (TF32).
"""
import torch

BLOCK = 4096
# 1 / sqrt(BLOCK)
_SCALE = 1 / 64
_SIGNS_IN_A_WORD = 64
# splitmix64: increment and multipliers, as signed words
_STEP = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)


def _shifted(word: torch.Tensor, bits: int) -> torch.Tensor:
    """A shift to the right that brings zeros in: torch.int64 has a sign."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def _mixed(word: torch.Tensor) -> torch.Tensor:
    word = (word ^ _shifted(word, 30)) * _FIRST
    word = (word ^ _shifted(word, 27)) * _SECOND
    return word ^ _shifted(word, 31)


def signs(count: int, seed: int, device: torch.device) -> torch.Tensor:
    """`count` numbers, a multiple of 64, that are 1 or -1: the same on every device."""
    start = torch.full((1,), seed, dtype=torch.int64, device=device)
    words = torch.arange(1, count // _SIGNS_IN_A_WORD + 1, dtype=torch.int64, device=device)
    words = _mixed(_mixed(start) + words * _STEP)
    # Eight signs from each byte: a word for each sign would take eight times the memory.
    bits = words.view(torch.uint8).unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8, device=device)
    return 1 - 2 * (bits & 1).reshape(-1).to(torch.float32)


def _walsh(values: torch.Tensor) -> torch.Tensor:
    """Multiplies each block of a float32 tensor by the Walsh-Hadamard matrix, and by the scale. The tensor's memory is used up."""
    other = torch.empty_like(values)
    half = 1
    while half < BLOCK:
        given, taken = values.view(-1, 2, half), other.view(-1, 2, half)
        torch.add(given[:, 0], given[:, 1], out=taken[:, 0])
        torch.sub(given[:, 0], given[:, 1], out=taken[:, 1])
        values, other = other, values
        half *= 2
    return values.mul_(_SCALE)


def encode(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Coefficients of a flat tensor of float32 or bfloat16, in memory of their own, with zeros behind it up to a whole block."""
    count = tensor.numel()
    whole = torch.zeros((count + BLOCK - 1) // BLOCK * BLOCK, dtype=torch.float32, device=tensor.device)
    whole[:count] = tensor
    return _walsh(whole.mul_(signs(whole.numel(), seed, tensor.device))).to(tensor.dtype)


def decode(coefficients: torch.Tensor, seed: int) -> torch.Tensor:
    """The numbers that coefficients came from, up to rounding, and the zeros behind them."""
    # A copy, also where the type stays: its memory is used up.
    values = _walsh(coefficients.to(torch.float32, copy=True))
    return values.mul_(signs(values.numel(), seed, coefficients.device)).to(coefficients.dtype)
