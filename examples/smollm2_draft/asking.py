"""Questions that a sentence answers: who, where, when, how many, by simple rules."""

from __future__ import annotations

import random
import re

from passages import sentences_of

NAME = r"(?:(?:Mr|Mrs|Miss|Lady|Sir|Dr)\.? )?[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,}){0,2}"
NOT_A_NAME = re.compile(
    r"(?:The|This|That|These|Those|There|They|Then|When|Where|What|While|With|Which|However|But|And|"
    r"For|From|His|Her|She|Its|Our|Your|You|Some|Any|All|Each|Every|Many|Most|Such|Thus|After|Before|"
    r"Although|Because|Since|Not|One|Two|Three|Here|How|Why|Who|Now|Only|Even|Both|Once|It|If|In|On)\b"
)
VERB = (
    r"(?:was|were|is|had|has|came|went|said|made|took|gave|found|built|wrote|saw|left|began|became|"
    r"died|lived|won|lost|brought|thought|told|asked|knew|felt|wanted|decided|argued|can|could|will|"
    r"must|may|should|would|[a-z]{3,}ed)"
)
BE = ("is", "are", "was", "were")
SUBJECT = (
    r"((?:(?!(?:it|that|which|they|he|she|you|we|who|not|can|to|and|or)\b)[a-z-]+ ){0,2}[a-z-]{3,})"
)
THING = re.compile(rf"(?:The|A|An|This) {SUBJECT} (is|are|was|were|can|must|should|may|has|had) ")
PERSON = re.compile(rf"({NAME}) ({VERB}) (.{{8,90}})")
NUMBER = re.compile(
    r"\b(?:\d[\d,.]*\d|\d|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|fifty"
    r"|hundreds of|thousands of) ((?:[a-z-]+ )?[a-z]{3,}s)\b"
)
DATE = re.compile(r",? (?:in|In|on|by|since|until) ((?:[A-Z][a-z]+ )?(?:1[0-9]|20)\d\d)\b")
PLACE = re.compile(
    rf"(?:The|A) {SUBJECT} (is|are|was|were) (?:\w+ )?(?:in|on|at|near|under|behind) [a-z]"
)
REASON = re.compile(rf"(?:The|A) {SUBJECT} (is|are|was|were) ([^,]{{5,60}}),? because ")


def question_of(text: str, rng: random.Random) -> str:
    """One that a sentence of the text answers; by its words, if no rule fits to one of a few."""
    sentences = sentences_of(" ".join(text.split())) or [" ".join(text.split())[:200]]
    for sentence in rng.sample(sentences, min(6, len(sentences))):
        if questions := _questions(sentence.rstrip('.!?"')):
            return rng.choice(questions)
    words = rng.choice(sentences).rstrip(".!?").split()
    first = rng.randrange(max(1, len(words) - 4))
    return f"What is said about {' '.join(words[first : first + 4]).strip(',;:')}?"


def _questions(sentence: str) -> list[str]:
    """By each rule that fits; none if nothing does."""
    found = []
    if (one := PERSON.match(sentence)) and not NOT_A_NAME.match(one[1]):
        rest = re.split(r"[;:,(]| and | but ", one[3])[0]
        found += [f"Who {one[2]} {rest}?", f"What do we learn about {one[1]}?"]
    if one := REASON.match(sentence):
        found.append(f"Why {one[2]} the {one[1]} {one[3]}?")
    if one := PLACE.match(sentence):
        found.append(f"Where {one[2]} the {one[1]}?")
    if one := THING.match(sentence):
        end = {"has": " have", "had": " have"}.get(one[2], "" if one[2] in BE else " do")
        asked = {"has": "does", "had": "did"}.get(one[2], one[2])
        found.append(f"What {asked} the {one[1]}{end}?")
    if one := NUMBER.search(sentence):
        found.append(f"How many {one[1]} are mentioned?")
    if one := DATE.search(sentence):
        found.append(f"What happened in {one[1]}?")
    return found
