library(testthat)
library(prosparse)

test_check("prosparse")
