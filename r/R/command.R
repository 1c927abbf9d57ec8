#' Path of the command
#'
#' The environment variable `PROSPARSE` or the option `prosparse.command` has the path of the
#' command. Without them, the command is looked up on the search path.
#'
#' @return The path, a string.
#' @export
prosparse_command <- function() {
  command <- getOption("prosparse.command", Sys.getenv("PROSPARSE"))
  if (!nzchar(command)) {
    command <- Sys.which("prosparse")
  }
  if (!nzchar(command) || !file.exists(command)) {
    stop(
      "The command 'prosparse' was not found. Install it by `pip install 'prosparse[cli]'`, or ",
      "set `options(prosparse.command = \"/path/to/prosparse\")`.",
      call. = FALSE
    )
  }
  unname(command)
}

# Run the command and return its output; an error of the command is an R error.
run_command <- function(arguments) {
  errors <- tempfile("prosparse-errors-")
  on.exit(unlink(errors))
  output <- suppressWarnings(system2(
    prosparse_command(), shQuote(arguments), stdout = TRUE, stderr = errors
  ))
  status <- attr(output, "status")
  messages <- readLines(errors, warn = FALSE, encoding = "UTF-8")
  if (!is.null(status) && status != 0) {
    stop(paste(messages, collapse = "\n"), call. = FALSE)
  }
  for (message in messages[nzchar(messages)]) {
    warning(message, call. = FALSE)
  }
  as.character(output)
}

# Options of the command from named values: fdr = 0.1 is --fdr 0.1, counts = TRUE is --counts.
option_arguments <- function(options) {
  if (length(options) > 0 && (is.null(names(options)) || any(!nzchar(names(options))))) {
    stop("Options must be named, for example `fdr = 0.1`.", call. = FALSE)
  }
  arguments <- character()
  for (name in names(options)) {
    flag <- paste0("--", gsub("_", "-", name, fixed = TRUE))
    value <- options[[name]]
    if (is.null(value) || isFALSE(value)) {
      next
    }
    arguments <- c(arguments, if (isTRUE(value)) flag else rbind(flag, format_values(value)))
  }
  arguments
}

format_values <- function(values) {
  if (is.numeric(values)) {
    return(format(values, digits = 15, scientific = FALSE, trim = TRUE))
  }
  as.character(values)
}
