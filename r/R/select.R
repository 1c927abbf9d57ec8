#' Select the variables that share variance
#'
#' Calls `prosparse select`. With the default method, FDRPCA, the expected proportion of false
#' discoveries among the selected variables is at most `fdr`.
#'
#' @param x A data frame, a matrix with observations in rows, or the path of a file.
#' @param ... Options of the command, named: `fdr = 0.1` is `--fdr 0.1`, `counts = TRUE` is
#'   `--counts`, `row_names = "id"` is `--row-names id`. A vector gives the option several times.
#' @param output Folder of the results. By default a temporary one.
#' @return An object of class `prosparse`: a list with the data frame `variables` (one row per
#'   variable, in order of relevance), `selected` (names), the matrices `loadings` and `scores`,
#'   `summary` (the lines that the command prints), and the paths `report` and `model`.
#' @examples
#' \dontrun{
#' fit <- prosparse_select(iris[1:4])
#' fit
#' plot(fit)
#' browseURL(fit$report)
#' }
#' @export
prosparse_select <- function(x, ..., output = tempfile("prosparse-")) {
  analyse("select", x, list(...), output)
}

#' Select a few variables that predict all others
#'
#' Calls `prosparse panel`.
#'
#' @inheritParams prosparse_select
#' @param n Number of variables. By default it is estimated by cross-validation.
#' @return An object of class `prosparse`, see [prosparse_select()].
#' @export
prosparse_panel <- function(x, n = NULL, ..., output = tempfile("prosparse-")) {
  analyse("panel", x, c(list(variables = n), list(...)), output)
}

analyse <- function(command, x, options, output) {
  folder <- tempfile("prosparse-table-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  table <- as_file(x, folder)
  options <- utils::modifyList(table$options, options)
  lines <- run_command(c(command, table$path, "--output", output, option_arguments(options)))
  read_analysis(command, output, lines)
}

read_analysis <- function(command, folder, lines) {
  variables <- read_result(folder, "selected.csv")
  variables$selected <- variables$selected == "yes"
  structure(
    list(
      command = command,
      variables = variables,
      selected = as.character(variables$variable[variables$selected]),
      loadings = read_matrix(folder, "loadings.csv"),
      scores = read_matrix(folder, "scores.csv"),
      summary = lines,
      report = normalizePath(file.path(folder, "report.html"), mustWork = FALSE),
      model = normalizePath(file.path(folder, "model.prosparse"), mustWork = FALSE)
    ),
    class = "prosparse"
  )
}

#' @export
print.prosparse <- function(x, ...) {
  cat(x$summary, sep = "\n")
  invisible(x)
}
