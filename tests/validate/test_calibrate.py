"""Values that keep every layer of a network alive, so that a mistake in any of them shows at its end."""

from typing import Any

import numpy as np

from sollens.analysis.validate.validate import Budget

WHOLE = Budget()

DEEP = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(30))
        def forward(self, x):
            for layer in self.layers:
                x = torch.tanh(layer(x))
            return x
    def get_inputs():
        return [torch.rand(16, 6)]
"""
NORMED = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        def forward(self, x):
            return F.relu6(self.norm(self.conv(x)))
    def get_inputs():
        return [torch.rand(8, 3, 9, 9)]
"""


def test_signals_keep_their_size_through_many_layers(files: Any) -> None:
    golden = files.golden(DEEP, budget=WHOLE)
    x = golden.array(golden.outputs[0])
    # As PyTorch draws them, the rows are alike to 1e-8 after 30 layers: less than rounding.
    assert np.std(x, axis=0).max() > 1e-3


def test_every_channel_is_neither_dead_nor_always_clamped(files: Any) -> None:
    golden = files.golden(NORMED, budget=WHOLE)
    y = golden.array(golden.outputs[0])
    for channel in range(4):
        assert (y[:, channel] == 0).any() and ((y[:, channel] > 0) & (y[:, channel] < 6)).any()
    assert (y == 6).any()


def test_a_run_is_as_before_where_calibration_fails(files: Any) -> None:
    golden = files.golden("""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc, self.calls = nn.Linear(5, 4), []
                self.lock = (n for n in range(3))  # no deep copy of it
            def forward(self, x):
                return self.fc(x)
        def get_inputs():
            return [torch.randn(3, 5)]
    """)
    assert not golden.undefined and golden.array(golden.outputs[0]).shape == (3, 4)
