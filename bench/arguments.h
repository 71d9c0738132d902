// Reads a command line as all of Kedge's commands do: exit code 2 for a wrong one.
#pragma once

#include <CLI/CLI.hpp>

namespace kedge::bench {

// False: the program ends with *code, and everything is said.
inline bool ParseArguments(CLI::App& app, int argc, char** argv, int* code) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *code = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  return true;
}

}  // namespace kedge::bench
