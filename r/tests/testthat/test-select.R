test_that("variables with shared variance are selected", {
  skip_without_command()
  x <- simulated()
  fit <- prosparse_select(x)
  expect_s3_class(fit, "prosparse")
  expect_true(all(names(x)[1:4] %in% fit$selected))
  expect_identical(fit$selected, fit$variables$variable[fit$variables$selected])
  expect_setequal(fit$variables$variable, names(x))
  expect_true(all(fit$variables$qvalue[fit$variables$selected] <= 0.05))
  expect_identical(rownames(fit$scores), rownames(x))
  expect_true(file.exists(fit$report))
  expect_true(file.exists(fit$model))
  expect_output(print(fit), paste(length(fit$selected), "of 12"))
})

test_that("a matrix and a file give the same result", {
  skip_without_command()
  x <- simulated()
  path <- tempfile(fileext = ".csv")
  write.csv(data.frame(id = rownames(x), x, check.names = FALSE), path, row.names = FALSE)
  of_file <- prosparse_select(path, row_names = "id", fdr = 0.1)
  of_matrix <- prosparse_select(as.matrix(x), fdr = 0.1)
  expect_equal(of_file$variables, of_matrix$variables)
  expect_equal(of_file$scores, of_matrix$scores)
})

test_that("missing values reach the command", {
  skip_without_command()
  x <- simulated()
  x[3, 2] <- NA
  expect_error(prosparse_select(x, method = "gsppca"), "missing")
})

test_that("errors of the command are R errors", {
  skip_without_command()
  expect_error(prosparse_select(simulated(), method = "nothing"), "nothing")
  expect_error(prosparse_select(1:3), "data frame, a matrix or the path")
  expect_error(prosparse_select("/nowhere.csv"), "File not found")
})

test_that("columns of text with spaces in option values are passed on", {
  skip_without_command()
  x <- simulated()
  x[["a site; $HOME"]] <- rep(c("north", "south"), 30)
  fit <- suppressWarnings(prosparse_select(x, ignore = "a site; $HOME"))
  expect_false("a site; $HOME" %in% fit$variables$variable)
})
