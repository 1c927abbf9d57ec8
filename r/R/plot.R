# Quantity of the table of variables that is plotted, and its label.
QUANTITIES <- c(communality = "communality", relevance = "relevance")

#' Plot the variables of a result
#'
#' Bars show the communality of each variable, or its relevance for methods without a communality.
#'
#' @param x Result of [prosparse_select()] or [prosparse_panel()].
#' @param n Maximum number of variables.
#' @param ... Not used.
#' @return A ggplot.
#' @export
plot.prosparse <- function(x, n = 30, ...) {
  if (!requireNamespace("ggplot2", quietly = TRUE)) {
    stop("Plots need the package 'ggplot2'.", call. = FALSE)
  }
  quantity <- intersect(names(QUANTITIES), names(x$variables))[1]
  if (is.na(quantity)) {
    stop("The result has neither a communality nor a relevance.", call. = FALSE)
  }
  rows <- utils::head(x$variables[order(-x$variables[[quantity]]), ], n)
  shown <- data.frame(
    variable = factor(rows$variable, levels = rev(rows$variable)),
    value = rows[[quantity]],
    selected = factor(ifelse(rows$selected, "selected", "not selected"),
                      levels = c("selected", "not selected"))
  )
  ggplot2::ggplot(
    shown, ggplot2::aes(x = .data$value, y = .data$variable, fill = .data$selected)
  ) +
    ggplot2::geom_col(width = 0.75) +
    ggplot2::scale_fill_manual(
      values = c("selected" = "#1e4e79", "not selected" = "#b8c0c8"), drop = FALSE
    ) +
    ggplot2::labs(x = QUANTITIES[[quantity]], y = NULL, fill = NULL) +
    ggplot2::theme_minimal()
}

utils::globalVariables(".data")
