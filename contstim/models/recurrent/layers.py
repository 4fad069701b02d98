"""The recurrent layer: forward over time, and its exact gradient, in few large operations.

Sequences are time-major, (T, B, .), and start from a zero state unless one is given. The
gradient is written out rather than left to automatic differentiation: the weights' gradients
are then single products over all steps, which on a processor makes training about twice as
fast. Tests compare it with automatic differentiation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contstim.models.recurrent.config import NetworkConfig

__all__ = ["State", "Tape", "layer_backward", "layer_forward"]


@dataclass
class State:
    """Hidden state of B sequences: `hidden` (B, H) and, in an LSTM, the `cell` (B, H)."""

    hidden: Tensor
    cell: Tensor | None

    @classmethod
    def zero(cls, config: NetworkConfig, n: int, dtype: torch.dtype, device: torch.device) -> State:
        """Return the state before the first symbol."""
        hidden = torch.zeros(n, config.hidden, dtype=dtype, device=device)
        cell = torch.zeros(n, config.hidden, device=device) if config.cell == "lstm" else None
        return cls(hidden, cell)

    def expand(self, n: int) -> State:
        """Return `n` copies of the state of one sequence."""
        cell = None if self.cell is None else self.cell.expand(n, -1)
        return State(self.hidden.expand(n, -1), cell)

    def row(self, index: int) -> State:
        """Return the state of one of the sequences."""
        cell = None if self.cell is None else self.cell[index : index + 1]
        return State(self.hidden[index : index + 1], cell)


@dataclass
class Tape:
    """What the backward pass needs: inputs, activations and states of each step."""

    inputs: Tensor
    gates: Tensor
    hidden: Tensor
    cells: Tensor | None


def layer_forward(
    config: NetworkConfig, weights: dict[str, Tensor], inputs: Tensor, start: State
) -> Tape:
    """Run the layer over `inputs` (T, B, E); ``hidden[t + 1]`` is the state after input t.

    With z = W_x x + W_h h + b, the ReLU unit is h' = max(0, z) and the LSTM (Hochreiter and
    Schmidhuber 1997, with forget gates) c' = s(z_f) c + s(z_i) tanh(z_g), h' = s(z_o) tanh(c'),
    its gates in the order i, f, o, g.
    """
    steps, batch, width = inputs.shape
    size = config.hidden
    gates = torch.addmm(
        weights["bias"], inputs.reshape(steps * batch, width), weights["input"].t()
    ).view(steps, batch, -1)
    hidden = torch.empty(steps + 1, batch, size, dtype=inputs.dtype, device=inputs.device)
    hidden[0] = start.hidden
    recurrent = weights["recurrent"].t()
    if start.cell is None:
        for t in range(steps):
            torch.addmm(gates[t], hidden[t], recurrent, out=gates[t])
            torch.clamp(gates[t], min=0, out=hidden[t + 1])
        return Tape(inputs, gates, hidden, None)
    cells = torch.empty(steps + 1, batch, size, device=inputs.device)
    cells[0] = start.cell
    for t in range(steps):
        z = gates[t]
        torch.addmm(z, hidden[t], recurrent, out=z)
        z[:, : 3 * size].sigmoid_()
        z[:, 3 * size :].tanh_()
        i, f, o, g = z.view(batch, 4, size).unbind(1)
        torch.mul(cells[t], f, out=cells[t + 1])
        cells[t + 1].addcmul_(i.float(), g.float())
        hidden[t + 1] = torch.tanh(cells[t + 1]).mul_(o)
    return Tape(inputs, gates, hidden, cells)


def layer_backward(
    config: NetworkConfig,
    weights: dict[str, Tensor],
    tape: Tape,
    grad_hidden: Tensor,
    grads: dict[str, Tensor],
) -> Tensor:
    """Add the weights' gradients to `grads` and return that of the inputs, (T, B, E).

    `grad_hidden` (T, B, H) is the loss's gradient in the states after each input.
    """
    steps, batch, size = grad_hidden.shape
    recurrent = weights["recurrent"]
    delta = torch.empty_like(tape.gates)
    if tape.cells is None:
        for t in range(steps - 1, -1, -1):
            dh = grad_hidden[t]
            if t + 1 < steps:
                dh = torch.addmm(dh, delta[t + 1], recurrent)
            torch.mul(dh, tape.hidden[t + 1] > 0, out=delta[t])
    else:
        carry = torch.zeros(batch, size, device=grad_hidden.device)
        for t in range(steps - 1, -1, -1):
            dh = grad_hidden[t]
            if t + 1 < steps:
                dh = torch.addmm(dh, delta[t + 1], recurrent)
            i, f, o, g = tape.gates[t].view(batch, 4, size).float().unbind(1)
            di, df, do, dg = delta[t].view(batch, 4, size).unbind(1)
            squashed = torch.tanh(tape.cells[t + 1])
            dh = dh.float()
            # d sigmoid = s (1 - s); d tanh = 1 - tanh^2.
            do.copy_((1 - o).mul_(o).mul_(dh).mul_(squashed))
            carry.add_(squashed.square_().neg_().add_(1).mul_(dh).mul_(o))
            di.copy_((1 - i).mul_(i).mul_(g).mul_(carry))
            df.copy_((1 - f).mul_(f).mul_(tape.cells[t]).mul_(carry))
            dg.copy_(g.square().neg_().add_(1).mul_(i).mul_(carry))
            carry.mul_(f)
    flat = delta.view(steps * batch, -1)
    grads["recurrent"].add_(flat.t() @ tape.hidden[:-1].reshape(steps * batch, size))
    grads["input"].add_(flat.t() @ tape.inputs.reshape(steps * batch, -1))
    grads["bias"].add_(flat.float().sum(0))
    return (flat @ weights["input"]).view(steps, batch, -1)
