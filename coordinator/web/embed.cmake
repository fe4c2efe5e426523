# Writes the files FILES (comma-separated) into OUTPUT, as entries of the table in
# coordinator/pages/run_pages.cc.
#
#   cmake -DOUTPUT=FILE -DFILES=FILE,FILE... -P embed.cmake
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
set(type_txt "text/plain; charset=utf-8")

set(table "")
string(REPLACE "," ";" files "${FILES}")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  get_filename_component(extension "${file}" LAST_EXT)
  string(SUBSTRING "${extension}" 1 -1 extension)
  if(NOT DEFINED type_${extension})
    message(FATAL_ERROR "embed.cmake: no content type for ${file}")
  endif()
  file(READ "${file}" text)
  # The source map is not served.
  string(REGEX REPLACE "\n//# sourceMappingURL=[^\n]*" "" text "${text}")
  string(APPEND table
    "{\"${name}\", {\"${type_${extension}}\", Text(R\"gradwire(${text})gradwire\")}},\n")
endforeach()
file(WRITE "${OUTPUT}" "${table}")
