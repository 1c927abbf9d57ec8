test_that("a panel has the requested size", {
  skip_without_command()
  fit <- prosparse_panel(simulated(), n = 3)
  expect_length(fit$selected, 3)
  expect_true(any(names(simulated())[1:4] %in% fit$selected))
})

test_that("plots show the selected variables", {
  skip_without_command()
  skip_if_not_installed("ggplot2")
  fit <- prosparse_select(simulated(), fdr = 0.001)
  drawn <- ggplot2::ggplot_build(plot(fit, n = 6))
  expect_equal(nrow(drawn$data[[1]]), 6)
  expect_equal(sum(drawn$data[[1]]$fill == "#1e4e79"), length(fit$selected))
})
