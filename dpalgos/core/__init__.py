"""What a privacy reviewer reads next to an estimator: its plan, its releases, and its rows.

- `plans`, `other_plans`: how a budget is divided among releases;
- `estimator`: the classes that an estimator derives from;
- `rows`: sums over rows, which alone hold the weights of rows;
- `persons`: estimators that protect persons with several rows;
- `ball`: means over rows that are clipped to a ball;
- `spend`: one call records the event of a release, draws its noise and counts it;
- `hardened_noise`: the same with floating-point-safe noise;
- `record`, `replicates`: what a run leaves.
"""
