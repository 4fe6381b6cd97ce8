"""For whoever writes a method: the promises that every method keeps, as checks to run on one's own.

With pytest:

.. code-block:: python

    from fairsad.testing import CHECKS, MethodCase

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_method(check):
        check(MethodCase(MyMethod, {"epochs": 40, "learning_rate": 0.02}))

``docs/add-a-method.md`` shows a whole method with its test.
"""

from __future__ import annotations

from fairsad.testing.graphs import toy_graph
from fairsad.testing.method_suite import CHECKS, MethodCase

__all__ = ["CHECKS", "MethodCase", "toy_graph"]
