"""What a privacy reviewer reads next to an estimator: its plan, its releases, and its rows.

- `plans`: plans that divide a budget among releases (:mod:`dpalgos.accounting.events`);
- `estimator`: the classes that an estimator derives from;
- `rows`: sums over rows, which alone hold the weights of rows;
- `ball`: means over rows that are clipped to a ball;
- `spend`: one call records the event of a release, draws its noise and counts it;
- `hardened_noise`: the same with floating-point-safe noise;
- `record`: what a run leaves.
"""
