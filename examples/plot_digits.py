"""
Handwritten digits
==================
"""
from prosparse import GSPPCA
from sklearn.datasets import load_digits
import matplotlib.pyplot as plt
X, _ = load_digits(return_X_y=True)
m = GSPPCA(5).fit(X)
plt.imshow(m.relevance_.reshape(8,8))
