test_that("named values become options of the command", {
  arguments <- prosparse:::option_arguments(
    list(fdr = 0.1, counts = TRUE, log1p = FALSE, n = NULL, row_names = "id", label = c("a", "b"))
  )
  expect_identical(
    arguments,
    c("--fdr", "0.1", "--counts", "--row-names", "id", "--label", "a", "--label", "b")
  )
})

test_that("numbers are written without exponents", {
  expect_identical(prosparse:::format_values(100000), "100000")
  expect_identical(prosparse:::format_values(3L), "3")
})

test_that("options without names are refused", {
  expect_error(prosparse:::option_arguments(list(0.1)), "must be named")
})

test_that("a missing command is an error that says how to install it", {
  previous <- options(prosparse.command = "/nowhere/prosparse")
  on.exit(options(previous))
  expect_error(prosparse_command(), "pip install")
})
