# Run by `cmake --install`, after the pages: links to headers lead to the installed ones, and those into the source, which is not
# there, become plain words. PAGES_FOLDER and INCLUDE_FOLDER are below the prefix.
set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${PAGES_FOLDER}")
file(RELATIVE_PATH headers "/prefix/${PAGES_FOLDER}/docs" "/prefix/${INCLUDE_FOLDER}")
file(GLOB_RECURSE pages "${folder}/*.md")
foreach(page IN LISTS pages)
  file(READ "${page}" text)
  string(REPLACE "](../include/" "](${headers}/" text "${text}")
  string(REPLACE "](../../include/" "](../${headers}/" text "${text}")
  string(REGEX REPLACE "\\[([^]]*)\\]\\((\\.\\./)+(src|tests|packaging|CMakeLists\\.txt)[^)]*\\)" "\\1" text "${text}")
  file(WRITE "${page}" "${text}")
endforeach()
