"""Domain-independent searches: states, moves and prices come from the caller.

The best programs are the cheapest paths in a graph of states, but this package knows nothing of
programs: a vertex is any hashable, a move has a label, and each label has a price. So searches are
tested on puzzles that can be checked by hand, and one graph, walked once, can be priced for every
machine. From 1 to 10 by adding 3 or doubling, where doubling costs five times as much:

>>> from synth.search.best_first import Puzzle, explore
>>> def moves(number):
...     return [(name, to) for name, to in (("+3", number + 3), ("x2", number * 2)) if to <= 10]
>>> found = explore(Puzzle(1, moves, lambda number: number == 10, lambda number: 0), max_moves=4)
>>> prices = [{"+3": 1, "x2": 5}[name] for name in found.alphabet]
>>> for path in found.cheapest(prices, ranks=range(len(prices))):
...     print(path.price, *(found.alphabet[label] for label in path.labels))
3 +3 +3 +3
11 x2 +3 x2
12 x2 x2 +3 +3

``space`` defines the possible answers of searches without paths. ``elimination`` and
``message_passing`` minimise sums of pairwise costs. ``front`` finds the Pareto front of two costs,
as seconds and bytes:

>>> from synth.search.front import find_front
>>> seconds, sizes = [5.0, 3.0, 4.0], [10, 30, 40]
>>> find_front(seconds, sizes, lambda some: [seconds[number] for number in some])
{1: 3.0, 0: 5.0}
"""
