"""Which blocks of a page are its text, by weights that were learned from real pages (bench/extract_training.py).

Weights are whole hundredths, so that their sum is the same in whatever order a set gives them.
"""

import json
from functools import cache, lru_cache
from importlib import resources

from headwater.extraction.html.blocks import Block, Element
from headwater.extraction.html.features import Look, PageFeatures, features_of

# No block has features of its own that outweigh such a place.
_HOPELESS = -200


def judge(blocks: list[Block], elements: list[Element]) -> list[float]:
    """Return for each block how sure it is that it belongs to the text: above zero it does, below it does not."""
    weights = _weights()
    steps, says = weights["steps"].get, weights["says"].get
    features = PageFeatures(blocks, elements, weights["words"])
    verdicts = []
    for number, place in enumerate(features.places):
        verdict = place.judged
        if verdict is None:
            verdict = place.words_judged + sum([steps(feature, 0) for feature in features.of_place(place)])
            place.judged = verdict
        if verdict > _HOPELESS:
            verdict += sum(map(_weigh, features.looks(number)))
            verdict += sum([says(word, 0) for word in features.said(number)])
        verdicts.append(verdict / 100)
    return verdicts


@lru_cache(maxsize=10_000)
def _weigh(look: Look) -> int:
    steps = _weights()["steps"]
    return sum([steps.get(feature, 0) for feature in features_of(look)])


@cache
def _weights() -> dict[str, dict[str, int]]:
    text = resources.files(__package__).joinpath("weights.json").read_text("utf-8")
    return {kind: {name: round(weight * 100) for name, weight in of.items()} for kind, of in json.loads(text).items()}
