# Name of the column in which row names are written.
ROW_NAMES <- "row name"

# Write a data frame or matrix with its row names, and return the options that read it.
write_table <- function(x, path) {
  x <- as.data.frame(x, check.names = FALSE, optional = TRUE)
  if (ncol(x) > 0 && (is.null(names(x)) || any(!nzchar(names(x))))) {
    stop("All columns of `x` must have names.", call. = FALSE)
  }
  if (ROW_NAMES %in% names(x)) {
    stop("`x` must not have a column named \"", ROW_NAMES, "\".", call. = FALSE)
  }
  names_of_rows <- stats::setNames(data.frame(rownames(x)), ROW_NAMES)
  write.csv(cbind(names_of_rows, x), path, row.names = FALSE, na = "", fileEncoding = "UTF-8")
  list(row_names = ROW_NAMES)
}

# Return the path of a table and the options that read it; a data frame is written to a file.
as_file <- function(x, folder, name = "table.csv") {
  if (is.character(x) && length(x) == 1) {
    if (!file.exists(x)) {
      stop("File not found: ", x, call. = FALSE)
    }
    return(list(path = normalizePath(x), options = list()))
  }
  if (!is.data.frame(x) && !is.matrix(x)) {
    stop("`x` must be a data frame, a matrix or the path of a file.", call. = FALSE)
  }
  path <- file.path(folder, name)
  list(path = path, options = write_table(x, path))
}

read_result <- function(folder, name) {
  path <- file.path(folder, name)
  if (!file.exists(path)) {
    return(NULL)
  }
  read.csv(path, check.names = FALSE, encoding = "UTF-8", stringsAsFactors = FALSE)
}

# Read a table whose first column has names, as a matrix.
read_matrix <- function(folder, name) {
  table <- read_result(folder, name)
  if (is.null(table)) {
    return(NULL)
  }
  values <- as.matrix(table[-1])
  rownames(values) <- as.character(table[[1]])
  values
}
