import numpy as np
from diffprivlib.models import LinearRegression

age, income, value = np.loadtxt("rows.csv", delimiter=",", skiprows=1, usecols=(0, 5, 6), unpack=True)
model = LinearRegression(epsilon=1, bounds_X=([0, 0], [60, 15.0001]), bounds_y=(0, 500001))
answer = model.fit(np.column_stack([age, income]), value).coef_
