"""How much of each column goes on? The channel mask learns it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ColumnMask(nn.Module):
    r"""Channel mask f_m of FairSAD, Eq. (5).

    .. math::
        \tilde H = H \odot m, \qquad m_i \sim \operatorname{Bernoulli}(p_i), \quad
        p_i = \operatorname{softmax}(\omega_i)_1

    While training, the draw is a Gumbel-softmax sample, one per forward pass and shared by all nodes. At evaluation
    the mask is its probability :math:`p_i`, the same every time.

    Deviation: the authors' code draws at evaluation too, and measures validation and test nodes with that one draw.
    With ``draw_at_evaluation``, ``draw`` makes the draw and it is kept with the weights until the next one, so
    that predictions of the kept epoch are those that were selected.

    Args:
        num_columns: Columns d_h of H.
        temperature: Of the Gumbel-softmax.
        hard: Draw zeros and ones, with the gradient of the soft sample.
        draw_at_evaluation: See above.
    """

    def __init__(
        self, num_columns: int, *, temperature: float = 1.0, hard: bool = False, draw_at_evaluation: bool = False
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.hard = hard
        self.scores = nn.Parameter(torch.empty(num_columns, 2))
        self.drawn: Tensor | None
        self.register_buffer("drawn", torch.ones(num_columns) if draw_at_evaluation else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scores uniform in [0, 1), as the authors' code starts."""
        nn.init.uniform_(self.scores)

    def probabilities(self) -> Tensor:
        """Shares [d_h] of the columns that are kept, p in the formula."""
        return self.scores.softmax(dim=1)[:, 0]

    def sample(self) -> Tensor:
        """One Gumbel-softmax draw [d_h]."""
        return nn.functional.gumbel_softmax(self.scores, tau=self.temperature, hard=self.hard, dim=1)[:, 0]

    @torch.no_grad()
    def draw(self) -> None:
        """Draw the mask of the next evaluation, where evaluation is with a draw."""
        if self.drawn is not None:
            self.drawn.copy_(self.sample())

    def at_evaluation(self) -> Tensor:
        """The mask [d_h] that predictions are made with."""
        return self.probabilities() if self.drawn is None else self.drawn

    def forward(self, columns: Tensor) -> Tensor:
        """Scale the columns [n, d_h]."""
        return columns * (self.sample() if self.training else self.at_evaluation())
