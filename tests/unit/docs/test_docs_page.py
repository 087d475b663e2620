"""Pages are read into blocks with their comments, headings and links."""

from __future__ import annotations

from docs.tools.page import ROOT, Page, slug, without_marks

TEXT = """\
# A page

<!-- up ORION_LOG_LEVEL=debug -->
See [the guide](guide.md#first-steps "why"), `[no link](x.md)` and ![a picture](assets/a.svg).

<!-- run exit=1 -->
```sh
orion-recall status   # [no link](y.md)
```
<!-- output -->
```text
# no heading
```

<!-- hidden python
assert 1 < 2

print("x")
-->

1. In a list:

    <!-- not run: it needs a server -->
    ```python
    if True:
        print(1)
    ```

## `status`, and *more* {#more}

## A page
"""
PAGE = Page(ROOT / "docs/pages/a.md", TEXT)


def test_blocks_have_the_comment_above_them_and_no_indentation() -> None:
    assert [(block.language, block.kind, block.argument) for block in PAGE.blocks] == [
        ("sh", "run", "exit=1"),
        ("text", "output", ""),
        ("python", "run", ""),
        ("python", "not run", "run: it needs a server"),
    ]
    assert [block.text for block in PAGE.blocks][2:] == [
        'assert 1 < 2\n\nprint("x")\n',
        "if True:\n    print(1)\n",
    ]
    assert [block.line for block in PAGE.blocks] == [7, 11, 15, 24]


def test_links_anchors_and_code_are_those_of_the_text_and_not_of_blocks() -> None:
    assert list(PAGE.links) == ["guide.md#first-steps", "assets/a.svg"]
    assert PAGE.anchors == {"a-page", "more", "a-page_1"}
    assert list(PAGE.spans) == ["[no link](x.md)", "status"]
    assert PAGE.engines == {"ORION_LOG_LEVEL": "debug"}
    assert Page(PAGE.path, "# Other\n").engines is None


def test_anchors_are_those_of_the_site() -> None:
    assert slug("Time in questions") == "time-in-questions"
    assert slug("2026-11-23: Größe, and `more` - of it") == "2026-11-23-groe-and-more-of-it"


def test_comments_for_tests_can_be_taken_out() -> None:
    shown = without_marks(TEXT)
    assert "<!--" not in shown
    assert "assert 1 < 2" not in shown
    assert "```sh\norion-recall status" in shown
