"""Whether two documents belong to one story: copies of a text, or reports of one event. It depends on the two alone."""

from headwater.stories.signature import SKETCH, UNIT, WINDOW, Signature

_FEWEST_SHINGLES = 12  # shorter texts are no copies of each other
_COPIED, _COPIED_LEAST = 0.65, 0.15  # of the text with the larger and with the smaller share
_COPIED_ON_ONE_SITE = 0.6  # of both texts, with the same title: parts of a series have other titles
_COPIED_DESPITE_NUMBERS = 0.8  # if the titles have different numbers
_COPY_LIKENESS = 0.3
_REPORT_LIKENESS = {3: 0.47, 4: 0.44, 5: 0.40, 6: 0.36, 7: 0.31}  # by the number of strong words that both have


def are_one_story(first: Signature, second: Signature) -> bool:
    """Return whether two documents belong to one story."""
    likeness = compare_words(first, second)
    if likeness < _COPY_LIKENESS:
        return False
    return _are_reports(first, second, likeness) or _are_copies(first, second)


def _are_copies(first: Signature, second: Signature) -> bool:
    if min(first.shingles, second.shingles) < _FEWEST_SHINGLES:
        return False
    least, most = sorted(estimate_shares(first, second))
    if first.site == second.site:
        return least >= _COPIED_ON_ONE_SITE and first.title == second.title
    numbers = first.title_numbers, second.title_numbers
    have_other_numbers = all(numbers) and numbers[0] != numbers[1]
    return least >= _COPIED_LEAST and most >= (_COPIED_DESPITE_NUMBERS if have_other_numbers else _COPIED)


def _are_reports(first: Signature, second: Signature, likeness: float) -> bool:
    """Two reports of one site are no pair: most are parts of a series, or one is an update that names the other."""
    if first.site == second.site or first.published is None or second.published is None:
        return False
    if abs(first.published - second.published) > WINDOW.total_seconds():
        return False
    common = len(first.strong.keys() & second.strong.keys())
    return common >= min(_REPORT_LIKENESS) and likeness >= _REPORT_LIKENESS[min(common, max(_REPORT_LIKENESS))]


def compare_words(first: Signature, second: Signature) -> float:
    """Return how alike the words of two documents are, from 0 to 1."""
    mine, other = first.strong | first.weak, second.strong | second.weak
    return sum(mine[term] * other[term] for term in mine.keys() & other.keys()) / UNIT**2


def estimate_shares(first: Signature, second: Signature) -> tuple[float, float]:
    """Return how much of the first text is in the second one, and how much of the second in the first, from 0 to 1."""
    if not first.sketch or not second.sketch:
        return 0.0, 0.0
    both = {*first.sketch} & {*second.sketch}
    if max(first.shingles, second.shingles) <= SKETCH:
        shared = float(len(both))
    else:
        union = sorted({*first.sketch, *second.sketch})[:SKETCH]
        likeness = sum(one in both for one in union) / len(union)
        shared = likeness / (1 + likeness) * (first.shingles + second.shingles)
    return min(1.0, shared / first.shingles), min(1.0, shared / second.shingles)
