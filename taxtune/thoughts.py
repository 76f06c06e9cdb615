"""What a model thinks aloud before it answers, told from its answer.

The notations are those of chat templates: a tag whose last word is one for thinking (`<think>` of
DeepSeek-R1, Qwen3 and most others, `[THINK]` of Magistral, `◁think▷` of Kimi-VL, `<seed:think>`,
`<longcat_think>`, `<|START_THINKING|>` of Command A, `<|begin_of_thought|>` of Sky-T1, `<Thought>`
of Marco-o1, `<REASONING>` of LLaVA-CoT); the channels of gpt-oss and Gemma 4, also if a tokenizer
dropped their marks; the lines of Granite and Apriel; MedGemma's tokens.
"""

from __future__ import annotations

import re

__all__ = ["CUT_THOUGHT", "fenced_blocks", "is_mark", "open_thought", "without_thoughts"]

#: Why a reply that ends within its thought is no answer.
CUT_THOUGHT = "the reply ends within the model's thought, before an answer"

_WORD = (
    r"(?:[a-z]{1,20}[:_▁-]){0,2}(?:ant)?"
    r"(?:thinking|think|thoughts?|reasoning|reason|reflection|analysis"
    r"|rationale|scratch_?pad|monologue|chain[_-]of[_-]thought|cot)"
    r"(?:[_-](?!end)[a-z]{1,20})?"
)
# What may stand before and after the name in a tag.
_HEAD = r"(?:[<＜]|&lt;)\s{0,9}[|｜]?\s{0,9}"
_REST = r"(?:\s[^<>\n]{0,80}?)?\s{0,9}[|｜]?(?:[>＞]|&gt;)"
_FENCE_LINE = r"^[ \t]*(?P<fence>`{3,}|~{3,})(?=(?P<info>[^\n`<]*)(?:<|$))"
_FLAGS = re.IGNORECASE | re.MULTILINE | re.VERBOSE
_MARK = re.compile(
    rf"""
    (?<![^\s(])(?P<quote>["'`])(?=[<\[◁])[^\s"'`]{{1,40}}[>\]▷](?P=quote)
  | (?P<close>
        {_HEAD}(?:/[|｜]?\s{{0,9}}|end[_▁](?:of[_▁])?){_WORD}{_REST} | <\|{_WORD}_end\|> | ◁/{_WORD}▷
      | \[(?:/|end[_ ]of[_ ])think(?:ing)?\] | <(?:unused|ctrl)95> | <channel\|> | <\|inner_suffix\|>
    )
  | (?P<answer>
        <\|channel\|?>final\b(?:\s*<\|constrain\|>\s*\w*)?(?:\s*<\|message\|>)?
      | (?-i:assistantfinal) | \[begin\ final\ response\]
      | <\|(?:content|start_response|begin_of_(?:solution|answer|response))\|>
      | ^here(?:\ is|[’']s)\ my\ response:
    )
  | (?P<open>
        {_HEAD}(?:(?:begin|start)[_▁](?:of[_▁])?)?{_WORD}{_REST} | ◁{_WORD}▷ | <\|inner_prefix\|>
      | \[(?:begin[_ ]of[_ ])?think(?:ing)?\] | <(?:unused|ctrl)94>(?:thought\b)? | <\|channel\|?>\w*(?:<\|message\|>)?
      | \A\s*(?-i:(?:analysis|commentary)(?=[A-Z]))
      | \A\s*here(?:\ is|[’']s)\ my\ thought\ process: | \A\s*here\ are\ my\ reasoning\ steps:
    )
  | {_FENCE_LINE}
    """,
    _FLAGS,
)
_FENCE = re.compile(_FENCE_LINE, re.MULTILINE)
#: What a server or a tokenizer may leave behind an answer.
_TAIL = re.compile(
    r"(?:\s{0,9}(?:<[|｜][^<>|｜\s]{1,40}[|｜]>|</s>|<eos>|<end_of_[a-z]{1,20}>|\[end final response\])){1,9}\Z",
    re.IGNORECASE,
)
_WRAPPED = re.compile(r"</(answer|response|solution|conclusion|output|final)>\Z", re.IGNORECASE)


def without_thoughts(text: str) -> str | None:
    """Returns the part of a reply behind its last thought, without white space at its ends.

    Any closing mark ends any thought; one without an opening ends a thought that the prompt opened.
    If nothing follows the last thought, the answer is what stands before it. What a fenced block
    outside of thoughts holds is no mark, and neither is what stands in quotation marks. A reply
    without a thought stays as it is.

    Returns:
        The answer. It is None if the reply ends within its thought, or has nothing else.
    """
    start = closed_in_fence = 0
    thinks = has_thoughts = False
    fence = before = ""
    for mark in _MARK.finditer(text):
        kind = mark.lastgroup
        if kind == "quote":
            continue
        if kind == "info":
            fence = "" if thinks else _next_fence(mark, fence)
        elif fence:
            closed_in_fence = mark.end() if kind == "close" else closed_in_fence
        else:
            has_thoughts = True
            if not thinks:
                before = (kind == "open" and text[start : mark.start()].strip()) or ""
            thinks = kind == "open"
            start = start if thinks else mark.end()
    if fence and closed_in_fence:  # a fence that is open to the end was part of the thought
        has_thoughts, thinks, start = True, False, closed_in_fence
    if not has_thoughts:
        return text
    rest = _TAIL.sub("", text[start:].rstrip()).strip() or _TAIL.sub("", before)
    wrapped = _WRAPPED.search(rest)
    opening = -1 if wrapped is None else rest.lower().rfind(f"<{wrapped[1].lower()}>")
    if wrapped is not None and opening >= 0:
        return rest[rest.index(">", opening) + 1 : wrapped.start()].strip() or None
    return None if thinks else rest or None


def _next_fence(line: re.Match[str], fence: str) -> str:
    """Returns the fence that is open after a line of one, empty for none."""
    if not fence:
        return line["fence"]
    return "" if line["fence"] == fence and not line["info"].strip() else fence


def fenced_blocks(text: str) -> list[str]:
    """Returns the contents of a text's fenced blocks; one that is not closed is none."""
    blocks = []
    fence, start = "", 0
    for line in _FENCE.finditer(text):
        after = _next_fence(line, fence)
        if after and not fence:
            start = text.find("\n", line.end()) + 1
        elif fence and not after:
            blocks.append(text[start : line.start()])
        fence = after
    return blocks


def open_thought(prompt: str) -> str:
    """Returns the mark at the end of a prompt that opens a thought, empty if there is none."""
    end = prompt[-200:].rstrip()
    for mark in _MARK.finditer(end):
        if mark.lastgroup == "open" and mark.end() == len(end):
            return mark[0]
    return ""


def is_mark(token: str) -> bool:
    """Returns whether a token of a tokenizer is a mark of thoughts."""
    return token == "<|message|>" or _MARK.fullmatch(token) is not None
