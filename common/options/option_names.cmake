# Writes OUTPUT, for #include: the names of all options of the programs that a user starts, each
# once, in order: "accumulate", "advertise" … A program lacks the rows of other programs, but all
# share one environment. So the names are read from the rows themselves, Add("batch-size", …), in
# SOURCES. OUTPUT is left alone if nothing changed.
set(names)
foreach(source IN LISTS SOURCES)
  file(READ ${source} text)
  string(REGEX MATCHALL "[^A-Za-z]Add\\([ \n]*\"[a-z][a-z-]*\"" rows "${text}")
  foreach(row IN LISTS rows)
    string(REGEX REPLACE ".*\"(.*)\"" "\\1" name "${row}")
    list(APPEND names ${name})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES names)
list(SORT names)
list(TRANSFORM names REPLACE "(.+)" "\"\\1\",\n")
list(JOIN names "" lines)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${lines}" @ONLY)
