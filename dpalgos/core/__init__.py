"""What a privacy reviewer reads next to an estimator: its plan, its releases, and its rows.

- `slots`: the kinds of releases of a plan, and what each costs;
- `plans`: plans that divide a budget;
- `estimator`: the class that an estimator derives from;
- `rows`: sums over rows, which alone hold the weights of rows;
- `spend`: one call records the event of a release, draws its noise and counts it;
- `hardened_noise`: the same with floating-point-safe noise;
- `record`: what a run leaves;
- `units`: keywords of estimators that protect people with all their rows.
"""
