# Four of twelve variables share a factor; row names have a quote, a comma and an umlaut.
simulated <- function() {
  set.seed(1)
  x <- matrix(rnorm(60 * 12), 60)
  x[, 1:4] <- x[, 1:4] + 2 * rnorm(60)
  colnames(x) <- c("first gene", "b,2", "c\"3", "d\u00e4", paste0("noise", 1:8))
  rownames(x) <- paste0("row ", seq_len(60))
  as.data.frame(x, optional = TRUE)
}

skip_without_command <- function() {
  found <- tryCatch(prosparse_command(), error = function(e) "")
  testthat::skip_if(!nzchar(found), "the command prosparse is not installed")
}
